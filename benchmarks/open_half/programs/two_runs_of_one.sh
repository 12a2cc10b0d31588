#!/bin/bash
# launch on both cards without torchrun. TODO move to torchrun once the image is rebuilt
export MASTER_ADDR=localhost
export WORLD_SIZE=${WORLD_SIZE:-1}
for i in 0 1; do
  export LOCAL_RANK=$i RANK=0 MASTER_PORT=$((${PORT:-29400} + i))
  ${PYTHON:-python} -u two_runs_of_one.py --data-seed 4 &
done
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
