#!/bin/sh
# Installs the pinned tools of tools/package-lock.json, once per lock.
set -eu
cd "$(dirname "$0")"
stamp=node_modules/.installed
if [ -f "$stamp" ] && cmp -s package-lock.json "$stamp"; then
	exit 0
fi
npm ci --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel=error
cp package-lock.json "$stamp"
