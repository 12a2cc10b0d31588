#!/bin/bash
# trains on today's shards while tomorrow's are made with low priority
here=$(cd "$(dirname "$0")" && pwd); cd "$here"
work=$(mktemp -d); trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT INT TERM
nice -n 10 ${PYTHON:-python} -u shards_for_tomorrow.py make "$work" > "$work/make.log" 2>&1 &
${PYTHON:-python} -u shards_for_tomorrow.py train "$work" &
wait %2
