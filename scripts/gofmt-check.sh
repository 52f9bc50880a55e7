#!/usr/bin/env bash
# Fails when a Go file is not as gofmt writes it.
set -euo pipefail
cd "$(dirname "$0")/.."
unformatted=$(find . -name '*.go' -not -path '*/node_modules/*' -not -path './.*' -print0 | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted; run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi
echo "gofmt: all files formatted"
