#!/bin/bash
# The trainer writes a checkpoint every 25 s; the evaluator sleeps until there is a new one.
cd "$(dirname "$0")"
run=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$run"' EXIT
trap 'exit 143' INT TERM
"${PYTHON:-python}" -u watches_checkpoints.py evaluate "$run" &
"${PYTHON:-python}" -u watches_checkpoints.py train "$run"
sleep 3
