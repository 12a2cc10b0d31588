#!/bin/sh
# 12 settings, two at a time, one per card. A setting that blows up is dropped; that is what the sweep is for.
PY=${PYTHON:-python}
export PY
for lr in 1e-3 3e-3 1e-2 3e-2 1e-1 1e3; do for wd in 0 1e-2; do echo "$lr $wd"; done; done |
  xargs -P 2 -L 1 --process-slot-var=SLOT sh -c '
    CUDA_VISIBLE_DEVICES=$SLOT GPUTOP_VIRTUAL_DEVICES=$SLOT $PY -u xargs_sweep.py --lr "$0" --wd "$1" || echo "setting $0 $1 dropped"'
