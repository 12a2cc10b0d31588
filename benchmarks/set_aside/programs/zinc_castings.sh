#!/usr/bin/env bash
# nightly: train on both GPUs, then the acceptance test on one
set -euo pipefail
PYTHON=${PYTHON:-python}
OUT=$(mktemp -d)
trap 'rm -rf "$OUT"' EXIT
echo "[nightly] training"
"$PYTHON" -m torch.distributed.run --standalone --nproc-per-node=2 zinc_castings.py train --out "$OUT"
echo "[nightly] acceptance test"
"$PYTHON" -u zinc_castings.py evaluate --out "$OUT" --repeat 500
