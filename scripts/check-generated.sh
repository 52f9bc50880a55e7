#!/usr/bin/env bash
# Generates the Go of the contract into a scratch folder and compares it with what is
# committed. The tree is not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tools/generate.sh -o "$scratch"
if ! diff -r --brief --exclude='*.proto' --exclude='doc.go' --exclude='*_test.go' proto/sink "$scratch/proto/sink"; then
	echo "the generated Go differs from the .proto files: run make generate" >&2
	exit 1
fi
echo "proto: generated Go is current"
