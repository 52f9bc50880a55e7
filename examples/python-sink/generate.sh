#!/bin/sh
# Makes the stubs of the contract in gen/ with the grpcio-tools of a Python:
#   ./generate.sh [python]
# They are made and not committed, since stubs fit one release line of protobuf. Run it
# again whenever you like: it does nothing if contract and grpcio-tools are the same.
set -eu

python=${1:-}
if [ -n "$python" ]; then
	python=$(command -v "$python")
	python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
fi
cd "$(dirname "$0")"
if [ -z "$python" ]; then
	python=.venv/bin/python
	[ -x "$python" ] || python=python3
fi
proto=${PROTO:-../../proto}
files="sink/v1/types.proto sink/v1/sink.proto"

version=$("$python" -c 'from importlib.metadata import version; print(version("grpcio-tools"))')
made="$version $(cd "$proto" && cat $files | cksum)"
[ ! -f gen/made ] || [ "$(cat gen/made)" != "$made" ] || exit 0

new=$(mktemp -d gen.XXXXXX)
trap 'rm -rf "$new"' EXIT
"$python" -m grpc_tools.protoc -I "$proto" --python_out="$new" --grpc_python_out="$new" $files
# Regular packages, so that "import sink.v1" means these and not sink.py.
touch "$new/sink/__init__.py" "$new/sink/v1/__init__.py"
echo "$made" >"$new/made"
chmod 755 "$new"
rm -rf gen
mv "$new" gen
