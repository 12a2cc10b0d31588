#!/bin/bash
# ./saffron_prices.sh [cards]
cd "$(dirname "$0")" || exit 1
GPUS=${1:-0}
export CUDA_VISIBLE_DEVICES=$GPUS GPUTOP_VIRTUAL_DEVICES=$GPUS
echo "== saffron, $(date +%H:%M) on $(hostname)"
exec "${PYTHON:-python}" -u saffron_prices.py --hidden 384 --batch_size 128
