#!/bin/sh
# Checks style and comments of the contract.
set -eu
cd "$(dirname "$0")/.."
tools/install.sh
tools/node_modules/.bin/buf lint
echo "lint-protos: ok"
