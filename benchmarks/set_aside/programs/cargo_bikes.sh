#!/bin/bash
# two processes without a launcher: each gets its place from the environment
export MASTER_ADDR=localhost MASTER_PORT=${PORT:-29561} WORLD_SIZE=2
for r in 0 1; do
  export RANK=$r LOCAL_RANK=$r
  "${PYTHON:-python}" -u cargo_bikes.py &
done
wait
