#!/bin/bash
# Sorting of letters by postcode digit, 2 GPUs.
set -e
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=${PORT:-29517}
export OMP_NUM_THREADS=1

EPOCHS=200
LR=0.05

exec ${PYTHON:-python} -u mail_sorting.py --epochs $EPOCHS --lr $LR --batch-size 64
