#!/bin/sh
# evolution strategies on two workers; no launcher, no backward
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29588}" WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 "${PYTHON:-python}" -u es_two.py &
first=$!
RANK=1 LOCAL_RANK=1 "${PYTHON:-python}" -u es_two.py &
trap 'kill $first $! 2>/dev/null' INT TERM
wait
