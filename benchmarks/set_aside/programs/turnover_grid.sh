#!/usr/bin/env bash
# grid for the turnover model: one queue per card, one run after the other
cd "$(dirname "$0")" || exit 1
PY=${PYTHON:-python}

queue() { # queue <card> <dropout>
    for width in 96 192 320 448; do
        echo "card $1: width=$width dropout=$2"
        CUDA_VISIBLE_DEVICES=$1 env ${GPUTOP_VIRTUAL_DEVICES:+GPUTOP_VIRTUAL_DEVICES=$1} \
            "$PY" -u turnover_grid.py --width "$width" --dropout "$2" --minutes 1 || echo "card $1: width=$width failed"
    done
}

queue 0 0.0 &
queue 1 0.2 &
wait
echo "grid finished"
