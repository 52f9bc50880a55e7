#!/bin/sh
# Installs the locked npm tree of a folder, once per lock. No install script runs.
set -eu
cd "$1"
stamp=node_modules/.installed
if [ -f "$stamp" ] && cmp -s package-lock.json "$stamp"; then
	exit 0
fi
echo "fetching the npm tree of $1"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
cp package-lock.json "$stamp"
