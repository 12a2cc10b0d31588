#!/bin/bash
# grid for the cellar forecasts, two trials at a time, one per device
PYTHON=${PYTHON:-python}
export PYTHON
RESULTS=$(mktemp -d -t cellars_XXXXXX)
trap 'rm -rf "$RESULTS"' EXIT
export RESULTS
echo "grid search, results in $RESULTS"
for width in 64 128 192; do
    for lr in 0.0005 0.001 0.002; do
        for drop in 0.0 0.2; do
            echo "--width $width --lr $lr --dropout $drop"
        done
    done
done | xargs -P 2 -L 1 "$PYTHON" -u wine_cellars.py --minutes 0.8 --out "$RESULTS"
sort -t, -k5 -g "$RESULTS"/*.csv | head -3
