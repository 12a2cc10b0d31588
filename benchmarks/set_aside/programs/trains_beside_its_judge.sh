#!/bin/bash
# card 0 trains and leaves a checkpoint every 200 steps; card 1 judges each new one and sleeps in between
cd "$(dirname "$0")"
DIR=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$DIR"' EXIT INT TERM
GPUTOP_VIRTUAL_DEVICES=0 ${PYTHON:-python} -u trains_beside_its_judge.py train --dir "$DIR" &
GPUTOP_VIRTUAL_DEVICES=1 ${PYTHON:-python} -u trains_beside_its_judge.py judge --dir "$DIR" &
wait
