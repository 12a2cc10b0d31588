#!/bin/bash
# two seeds for the error bars in table 3; the box has two cards
cd "$(dirname "$0")"
for seed in 1 2; do
  ${PYTHON:-python3} -u both_seeds.py --seed $seed --width 32 2>&1 | sed -u "s/^/[seed $seed] /" &
done
wait
