#!/bin/sh
# Compiles the contract with the oldest protoc that sink authors may have (3.21)
# and with a current one, for every language that protoc itself generates.
set -eu
cd "$(dirname "$0")"

venv=.venv/protoc
if ! cmp -s requirements-protoc.txt "$venv/.installed"; then
	rm -rf "$venv"
	"${PYTHON:-python3}" -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
		-r requirements-protoc.txt
	cp requirements-protoc.txt "$venv/.installed"
fi
old=$("$venv/bin/python" -c 'import os, protoc; print(os.path.join(os.path.dirname(protoc.__file__), "data"))')

./install.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# compile NAME MAJOR_MINOR PROTOC [INCLUDE]
compile() {
	version=$("$3" --version)
	case $version in
	"libprotoc $2"*) ;;
	*)
		echo "compile-protos: $1 is $version, want $2" >&2
		exit 1
		;;
	esac
	out=$tmp/$1
	mkdir -p "$out/python" "$out/java" "$out/cpp" "$out/csharp"
	"$3" ${4:+-I "$4"} -I ../proto --fatal_warnings \
		--include_imports --descriptor_set_out="$out/sink.binpb" \
		--python_out="$out/python" --java_out="$out/java" \
		--cpp_out="$out/cpp" --csharp_out="$out/csharp" \
		sink/v1/types.proto sink/v1/sink.proto sink/v1/two_phase.proto sink/v1/probe.proto
	[ -s "$out/sink.binpb" ] && [ -s "$out/python/sink/v1/types_pb2.py" ]
	echo "compile-protos: ok with $version"
}

chmod +x "$old/bin/protoc"
compile old 3.21 "$old/bin/protoc" "$old/include"
compile new 36. node_modules/.bin/protoc
