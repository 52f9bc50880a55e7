#!/bin/sh
# Runs the demo with chaos some times in a row. Each run must end exact, with at least
# five kills of sidecar and sink that landed.
#
#   scripts/chaos.sh bin/replicant-sidecar 10
set -eu

for run in $(seq "$2"); do
	line=$("$1" demo --chaos --for 30s -o json 2>/dev/null)
	printf '%s' "$line" | python3 -c '
import json, sys
r = json.load(sys.stdin)
k = r["kills"]
print("run", sys.argv[1], r["verdict"], r["rows"], "rows, kills landed: sidecar", k["sidecar"], "sink", k["sink"], "seed", r["seed"])
sys.exit(r["verdict"] != "exact" or min(k["sidecar"], k["sink"]) < 5)
' "$run"
done
echo "chaos: $2 runs exact, at least five kills of each process in every one"
