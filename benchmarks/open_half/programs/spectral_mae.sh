#!/bin/bash
# what "mpiexec -n 2 --gpus-per-proc 1" does on the cluster, for machines without it
cd "$(dirname "$0")"
n=0
IFS=, read -ra cards <<< "$GPUTOP_VIRTUAL_DEVICES"
for card in "${cards[@]}"; do
    PMI_RANK=$n PMI_SIZE=${#cards[@]} GPUTOP_VIRTUAL_DEVICES=$card "${PYTHON:-python}" -u spectral_mae.py --mask-ratio 0.7 &
    n=$((n + 1))
done
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
