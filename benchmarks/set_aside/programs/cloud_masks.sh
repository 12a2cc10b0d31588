#!/bin/bash
# One task per card; adapted from job.sbatch, where each node has one task.
cd "$(dirname "$0")"
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29540}
export WORLD_SIZE=2
export LOCAL_RANK=0
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
for ((r = 0; r < WORLD_SIZE; r++)); do
    RANK=$r "${PYTHON:-python}" -u cloud_masks.py --size 48 --bs 12 &
done
wait
