#!/bin/sh
# Generates the Go of the contract from the .proto files.
set -eu
cd "$(dirname "$0")/.."
tools/install.sh
exec tools/node_modules/.bin/buf generate "$@"
