#!/usr/bin/env bash
# Launch: bash sources_an_env_file.sh      (one rank for each visible card)
set -euo pipefail
cd "$(dirname "$0")"
set -a
source ./sources_an_env_file.env
set +a
NPROC=$(awk -F, '{print NF}' <<< "$CUDA_VISIBLE_DEVICES")
exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc_per_node "$NPROC" \
    sources_an_env_file.py --epochs "$EPOCHS" --batch-size 48
