#!/bin/sh
# Makes the stubs of the contract in gen/ with the grpcio-tools of a Python:
#   ./generate.sh [python]
# They are made and not committed, since stubs fit one protobuf release line: after
# another version was installed, run it again.
set -eu
cd "$(dirname "$0")"

python=${1:-.venv/bin/python}
[ -x "$python" ] || python=$(command -v "$python" || command -v python3)
proto=${PROTO:-../../proto}
new=$(mktemp -d gen.XXXXXX)
trap 'rm -rf "$new"' EXIT

"$python" -m grpc_tools.protoc -I "$proto" --python_out="$new" --grpc_python_out="$new" \
	sink/v1/types.proto sink/v1/sink.proto
# A regular package, so that "import sink.v1" finds it and not sink.py.
touch "$new/sink/__init__.py" "$new/sink/v1/__init__.py"
chmod -R u=rwX,go=rX "$new"
rm -rf gen
mv "$new" gen
