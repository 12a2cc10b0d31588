#!/usr/bin/env bash
# two-rank run without torchrun (not installed on the teaching machines)
set -u
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29571} WORLD_SIZE=2
export LOCAL_RANK=0
trap 'kill $(jobs -p) 2>/dev/null; exit' INT TERM
for r in 0 1; do
  RANK=$r "${PYTHON:-python}" -u char_lm_env.py --width 192 --seq 64 &
done
wait
