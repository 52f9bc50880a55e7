#!/usr/bin/env bash
# Fetches the packages of examples/typescript-sink and compiles it; once per state of the lock,
# the contract and the sources.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/npm-tree.sh examples/typescript-sink
cd examples/typescript-sink
inputs=(package-lock.json tsconfig.json generate.sh ./*.ts tests/*.ts ../../proto/sink/v1/*.proto)
stamp=dist/.built
if [ -f "$stamp" ] && [ -d gen ] && cmp -s <(cat "${inputs[@]}" | cksum) "$stamp"; then
	exit 0
fi
rm -rf dist
npm run --silent build
cat "${inputs[@]}" | cksum >"$stamp"
