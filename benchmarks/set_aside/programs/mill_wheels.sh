#!/usr/bin/env bash
# ./mill_wheels.sh [processes]
set -euo pipefail
cd "$(dirname "$0")"
# export NCCL_DEBUG=INFO
# export TORCH_DISTRIBUTED_DEBUG=DETAIL
export CUDA_VISIBLE_DEVICES=0 GPUTOP_VIRTUAL_DEVICES=0
export TOKENIZERS_PARALLELISM=false
exec "${PYTHON:-python}" -u -m torch.distributed.run --standalone --nproc_per_node="${1:-2}" mill_wheels.py --arch res1d --lr 3e-4
