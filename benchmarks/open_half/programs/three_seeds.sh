#!/usr/bin/env bash
# two cards, a seed on each
cd "$(dirname "$0")"
CARDS=2
run() {
    GPUTOP_VIRTUAL_DEVICES=$(( $1 / 10 % CARDS )) "${PYTHON:-python}" -u three_seeds.py --seed "$1" --seconds 200 2>&1 | sed -u "s/^/[seed $1] /" &
}
run 1
run 2
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
