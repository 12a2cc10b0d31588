#!/usr/bin/env bash
# stage 1: teacher on two GPUs (short here), stage 2: the student that goes on the phone
set -euo pipefail
cd "$(dirname "$0")"
PY=${PYTHON:-python}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
$PY -m torch.distributed.run --standalone --nproc_per_node=2 teacher_of_strangers.py teacher --out "$WORK/teacher.pt" --iters 80
$PY -u teacher_of_strangers.py student --teacher "$WORK/teacher.pt"
