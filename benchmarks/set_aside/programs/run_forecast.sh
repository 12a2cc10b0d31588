#!/bin/bash
# trains the load forecaster on both cards of the box
cd "$(dirname "$0")"

WORLD_SIZE=2
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=29571
export OMP_NUM_THREADS=1
export PYTHONUNBUFFERED=1

for r in 0 1; do
    RANK=$r LOCAL_RANK=$r python forecast_load.py --hidden 128 --lr 1e-3 "$@" &
done
wait
