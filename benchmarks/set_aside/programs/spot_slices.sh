#!/bin/bash
# The queue gives 50-second slices (on the real one: 4 h). Each job saves, ends and submits the next one; four slices in all.
cd "$(dirname "$0")"
state=$(mktemp -u --suffix=.pt)
trap 'rm -f "$state"' EXIT
trap 'kill $child 2>/dev/null; exit 143' INT TERM
for slice in 1 2 3 4; do
    echo "== slice $slice of 4"
    "${PYTHON:-python}" -u spot_slices.py --state "$state" --until $(($(date +%s) + 50)) & child=$!
    wait $child || exit 1
    sleep 3 & wait $!
done
