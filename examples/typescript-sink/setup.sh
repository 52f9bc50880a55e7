#!/bin/sh
# Fetches the pinned packages and compiles the sink into dist/:
#   ./setup.sh && node dist/sink.js
# No install script runs: the SQLite that comes with @photostructure/sqlite is compiled already.
set -eu
cd "$(dirname "$0")"

npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
npm run --silent build
