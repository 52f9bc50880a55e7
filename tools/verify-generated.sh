#!/bin/sh
# Fails if the committed Go of the contract is not what the .proto files give.
set -eu
cd "$(dirname "$0")/.."
tools/install.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tools/node_modules/.bin/buf generate -o "$tmp"

# A file that only one side has counts as a difference.
(cd "$tmp/proto" && find . -name '*.pb.go' | sort) >"$tmp/want"
(cd proto && find . -name '*.pb.go' | sort) >"$tmp/have"
[ -s "$tmp/want" ] || {
	echo "verify-generated: nothing was generated" >&2
	exit 1
}
fail=0
diff "$tmp/have" "$tmp/want" || fail=1
while read -r file; do
	cmp -s "proto/$file" "$tmp/proto/$file" || {
		echo "verify-generated: proto/$file differs" >&2
		fail=1
	}
done <"$tmp/want"
if [ $fail -ne 0 ]; then
	echo "verify-generated: run tools/generate.sh and commit the result" >&2
	exit 1
fi
echo "verify-generated: $(wc -l <"$tmp/want") files as generated"
