#!/bin/bash
# Two users, one card: a turn of 20 s each. The other's job is stopped (SIGSTOP) meanwhile, and keeps its memory.
cd "$(dirname "$0")"
trap 'kill -CONT $(jobs -p) 2>/dev/null; kill $(jobs -p) 2>/dev/null' EXIT
trap 'exit 143' INT TERM
"${PYTHON:-python}" -u takes_turns.py --user vera --lr 1e-3 & a=$!
"${PYTHON:-python}" -u takes_turns.py --user omar --lr 3e-4 & b=$!
for turn in 1 2 3 4 5; do
    kill -STOP $b && kill -CONT $a
    echo "turn $turn: vera's; omar is paused"
    sleep 20
    kill -STOP $a && kill -CONT $b
    echo "turn $turn: omar's; vera is paused"
    sleep 20
done
