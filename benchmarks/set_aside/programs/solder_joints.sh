#!/usr/bin/env bash
# four learning rates, three seeds; one queue for each card
cd "$(dirname "$0")" || exit 1
queue() {
    local card=$1; shift
    for lr in "$@"; do
        for seed in 0 1 2; do
            CUDA_VISIBLE_DEVICES=$card GPUTOP_VIRTUAL_DEVICES=$card "${PYTHON:-python}" -u solder_joints.py --lr "$lr" --seed "$seed"
        done
    done
}
trap 'kill $(jobs -p) 2> /dev/null' INT TERM
queue 0 1e-4 3e-4 &
queue 1 1e-3 3e-3 &
wait
