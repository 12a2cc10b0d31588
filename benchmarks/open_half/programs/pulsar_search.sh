#!/bin/bash
# both bands at once, one job each
export CUDA_VISIBLE_DEVICES=0
PYTHON=${PYTHON:-python}

for band in L S; do
    "$PYTHON" -u pulsar_search.py --band "$band" &
    sleep 1
done
wait
