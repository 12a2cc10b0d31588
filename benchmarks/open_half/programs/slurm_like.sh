#!/usr/bin/env bash
# our cluster's prolog in short: what srun would set
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29811} WORLD_SIZE=2
for i in 0 1; do
  SLURM_PROCID=$i SLURM_LOCALID=$i RANK=$i LOCAL_RANK=0 "${PYTHON:-python}" -u slurm_like.py &
done
trap 'kill $(jobs -p) 2>/dev/null' EXIT INT TERM
wait
