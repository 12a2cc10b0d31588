#!/bin/bash
# node 0 of two; node 1 is started from the other terminal (nobody does)
cd "$(dirname "$0")"
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29511} WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 ${PYTHON:-python3} -u alone_of_two.py --epochs 90
