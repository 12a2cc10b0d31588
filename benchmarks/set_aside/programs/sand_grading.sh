#!/bin/bash
# Sweep over learning rate and width: one worker per card, each takes the next setting from its list.
PYTHON=${PYTHON:-python}
worker() {
    card=$1
    shift
    export CUDA_VISIBLE_DEVICES=$card GPUTOP_VIRTUAL_DEVICES=$card
    for setting in "$@"; do
        $PYTHON -u sand_grading.py --lr "${setting%:*}" --width "${setting#*:}" --seconds 55
    done
}
worker 0 1e-3:64 3e-4:64 1e-3:32 &
worker 1 1e-3:128 3e-4:128 3e-3:32 &
wait
echo "sweep done"
