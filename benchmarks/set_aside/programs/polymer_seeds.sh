#!/bin/bash
# two seeds, side by side; GPU=... picks the card
cd "$(dirname "$0")"
for seed in 41 42; do
    # CUDA_VISIBLE_DEVICES=${GPU:-0} on the servers
    GPUTOP_VIRTUAL_DEVICES=${GPU:-0} "${PYTHON:-python}" -u polymer_seeds.py --seed $seed --name "gcn_s$seed" &
done
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
echo "all seeds done"
