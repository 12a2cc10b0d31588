#!/usr/bin/env bash
# grid over rate and width; results land in one csv
set -e
cd "$(dirname "$0")"
export PYTHONUNBUFFERED=1
RESULTS=$(mktemp /tmp/demand_sweep_XXXX.csv)
n=0
for width in 64 128; do
  for lr in 1e-3 3e-3 3e-4; do
    for seed in 0 1; do
      n=$((n+1))
      echo "=== trial $n/12: width=$width lr=$lr seed=$seed"
      python demand_tcn.py --width $width --lr $lr --seed $seed --results "$RESULTS"
    done
  done
done
sort -t, -k4 -g "$RESULTS" | head -3
rm -f "$RESULTS"
