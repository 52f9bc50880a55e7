#!/usr/bin/env bash
# Makes examples/python-sink/.venv with what the sink and the Python checks need, and the
# sink's stubs; once per state of the requirements and the contract.
set -euo pipefail
cd "$(dirname "$0")/.."
sink=examples/python-sink
inputs=("$sink/requirements.txt" tools/lint/requirements.txt proto/sink/v1/*.proto)
stamp=$sink/.venv/.installed
if [ -d "$sink/gen" ] && [ -f "$stamp" ] && cmp -s <(cat "${inputs[@]}") "$stamp"; then
	exit 0
fi
echo "making the Python environment in $sink/.venv"
rm -rf "$sink/.venv"
"$sink/setup.sh"
"$sink/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
	-r tools/lint/requirements.txt
cat "${inputs[@]}" >"$stamp"
