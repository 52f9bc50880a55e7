#!/usr/bin/env bash
# Runs a command and says at the end, in one line, whether it passed and how long it took.
set -uo pipefail
printf 'go:     %s\n' "$(go version)"
printf 'python: %s\n' "$(python3 --version)"
printf 'npm:    %s\n' "$(npm --version)"
printf 'cpus:   %s\n' "$(getconf _NPROCESSORS_ONLN)"

SECONDS=0
"$@"
code=$?
took=$(printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)))
if [ "$code" -eq 0 ]; then
	printf '\nci: passed in %s (%s)\n' "$took" "$*"
else
	printf '\nci: FAILED with code %d after %s (%s)\n' "$code" "$took" "$*"
fi
exit "$code"
