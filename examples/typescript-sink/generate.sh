#!/bin/sh
# Makes the types and stubs of the contract in gen/, with the tools that package-lock.json
# pins. They are made and not committed. Run it again whenever you like: it does nothing if
# contract and tools are the same.
set -eu
cd "$(dirname "$0")"
proto=${PROTO:-../../proto}
files="sink/v1/types.proto sink/v1/sink.proto"

made=$(cat package-lock.json generate.sh $(printf "$proto/%s " $files) | cksum)
[ ! -f gen/made ] || [ "$(cat gen/made)" != "$made" ] || exit 0

# forceLong=bigint: positions and epochs use all 64 bits, which a number has not.
# unions-value: a frame of a stream is one of its kinds, and the compiler knows which.
options='"forceLong=bigint", "oneof=unions-value", "outputServices=grpc-js", "env=node",
  "importSuffix=.js", "esModuleInterop=true", "outputJsonMethods=false"'
new=$(mktemp -d gen.XXXXXX)
trap 'rm -rf "$new"' EXIT
PATH=$PWD/node_modules/.bin:$PATH buf generate "$proto" $(printf -- "--path $proto/%s " $files) \
	--template "{\"version\": \"v2\", \"plugins\":
	[{\"local\": \"protoc-gen-ts_proto\", \"out\": \"$new\", \"opt\": [$options]}]}"
echo "$made" >"$new/made"
chmod 755 "$new"
rm -rf gen
mv "$new" gen
