#!/bin/bash
# both eyes of the workstation
cd "$(dirname "$0")"
base=${PORT:-29560}
pids=()
IFS=, read -ra cards <<< "${GPUTOP_VIRTUAL_DEVICES:-0,1}"
for i in "${!cards[@]}"; do
    MASTER_ADDR=localhost MASTER_PORT=$((base + i)) WORLD_SIZE=${#cards[@]} RANK=$i LOCAL_RANK=$i \
        "${PYTHON:-python}" -u retina_two.py --lr 3e-4 --timeout-min 20 &
    pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM EXIT
wait
