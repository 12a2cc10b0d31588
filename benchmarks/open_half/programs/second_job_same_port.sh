#!/usr/bin/env bash
# two experiments, one box, one config file with the port in it
PY="${PYTHON:-python}"; export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29611}" WORLD_SIZE=1 RANK=0
LR=0.01 "$PY" -u second_job_same_port.py > /dev/null &
first=$!
trap 'kill $first 2>/dev/null' EXIT
sleep 15
LR=0.001 "$PY" -u second_job_same_port.py
