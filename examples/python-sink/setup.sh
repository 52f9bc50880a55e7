#!/bin/sh
# Makes .venv with what requirements.txt pins, and the stubs:
#   ./setup.sh && .venv/bin/python sink.py
set -eu
cd "$(dirname "$0")"

"${PYTHON3:-python3}" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
./generate.sh .venv/bin/python
