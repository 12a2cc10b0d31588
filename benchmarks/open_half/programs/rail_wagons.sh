#!/usr/bin/env bash
# both cards of the shared machine; no slurm there, and torchrun is not in the PATH
set -u
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=${PORT:-29533}
export WORLD_SIZE=2

for i in $(seq 0 $((WORLD_SIZE - 1))); do
    RANK=$i LOCAL_RANK=$i "${PYTHON:-python}" -u rail_wagons.py --batch-size 32 --epochs 60 &
done
wait
