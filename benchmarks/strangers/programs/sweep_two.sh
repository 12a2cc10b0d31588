#!/bin/bash
# two seeds next to each other, one worker each
cd "$(dirname "$0")"
trap 'kill $(jobs -p) 2>/dev/null' EXIT TERM INT
for s in 0 1; do
  GPUTOP_VIRTUAL_DEVICES=$s OMP_NUM_THREADS=1 "${PYTHON:-python}" seed_run.py --seed $s &
done
wait
