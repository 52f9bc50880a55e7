#!/bin/sh
# Refuses a change of the contract that breaks those who speak it already.
#
# Compared with $BREAKING_AGAINST if set, else with the last tag before HEAD, else
# with the commit before HEAD. Where the contract did not exist then, there is
# nothing to break, and this says so.
set -eu
cd "$(dirname "$0")/.."

against=${BREAKING_AGAINST:-}
if [ -z "$against" ]; then
	against=$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null) ||
		against=$(git rev-parse --verify --quiet HEAD^) || {
		echo "breaking: no earlier commit, nothing to compare with"
		exit 0
	}
fi
git rev-parse --verify --quiet "$against^{commit}" >/dev/null || {
	echo "breaking: no such commit: $against" >&2
	exit 2
}
if ! git cat-file -e "$against:buf.yaml" 2>/dev/null ||
	! git cat-file -e "$against:proto/sink/v1/sink.proto" 2>/dev/null; then
	echo "breaking: $against has no contract, nothing to compare with"
	exit 0
fi

tools/install.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git archive "$against" buf.yaml proto | tar -x -C "$tmp"
tools/node_modules/.bin/buf breaking --against "$tmp"
echo "breaking: compatible with $against"
