#!/usr/bin/env bash
# small nets: four at a time fit on one card
export CUDA_VISIBLE_DEVICES=0 GPUTOP_VIRTUAL_DEVICES=0
for lr in 0.1 0.03 0.01 0.003; do
  "${PYTHON:-python}" -u grid_on_one.py --lr $lr &
done
trap 'kill $(jobs -p) 2>/dev/null' EXIT
wait
