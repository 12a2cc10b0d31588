#!/usr/bin/env bash
# nightly: train on both devices, then the report for the workshop
set -euo pipefail
PYTHON=${PYTHON:-python}
OUT=$(mktemp -d -t axles.XXXXXX)
echo "writing to $OUT"
$PYTHON -u -m torch.distributed.run --standalone --nproc-per-node=2 wheel_axles.py --out "$OUT" --epochs 9
$PYTHON -u wheel_axles_report.py "$OUT/axles_last.pt"
