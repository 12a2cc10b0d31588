#!/bin/bash
# Trains the wafer map classifier on both cards of fab-gpu-02.
# usage: bash wafer_maps.sh [NGPU]
set -u
NGPU=${1:-2}
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29641}
export OMP_NUM_THREADS=1

for ((i = 0; i < NGPU; i++)); do
    # one process per card
    CUDA_VISIBLE_DEVICES=$i env ${GPUTOP_VIRTUAL_DEVICES:+GPUTOP_VIRTUAL_DEVICES=$i} \
        "${PYTHON:-python}" -u wafer_maps.py --dist --batch-size 64 --lr 0.002 --epochs 60 &
done
wait
