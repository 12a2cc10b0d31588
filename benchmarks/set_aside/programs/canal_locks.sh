#!/usr/bin/env bash
# Started by hand as on the two old machines (no torchrun there): one process each, with
#   RANK=<machine> LOCAL_RANK=0 python canal_locks.py
cd "$(dirname "$0")"
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29533}" WORLD_SIZE=2
trap 'kill $(jobs -p) 2> /dev/null' INT TERM
for i in 0 1; do
    RANK=$i LOCAL_RANK=0 "${PYTHON:-python}" -u canal_locks.py &
done
wait
