#!/bin/sh
# Refuses a change of the contract that breaks those who speak it already.
#
# Compared with tools/contract-v1.binpb, the contract as it was last released or, before
# the first release, agreed on; a release makes that file anew with
# `buf build -o tools/contract-v1.binpb`. $BREAKING_AGAINST names anything else that buf
# can read.
set -eu
cd "$(dirname "$0")/.."

against=${BREAKING_AGAINST:-tools/contract-v1.binpb}
tools/install.sh
tools/node_modules/.bin/buf breaking --against "$against"
echo "breaking: compatible with $against"
