#!/usr/bin/env bash
# Makes .venv with the pinned packages of the Python sink and of the Python checks, once
# per state of the two requirement files.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=(examples/python-sink/requirements.txt tools/lint/requirements.txt)
stamp=.venv/.installed
if [ -f "$stamp" ] && cmp -s <(cat "${requirements[@]}") "$stamp"; then
	exit 0
fi
echo "making the Python environment .venv"
rm -rf .venv
"${PYTHON3:-python3}" -m venv .venv
args=()
for file in "${requirements[@]}"; do
	args+=(-r "$file")
done
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "${args[@]}"
cat "${requirements[@]}" >"$stamp"
