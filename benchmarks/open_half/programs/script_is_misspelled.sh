#!/bin/bash
# usage: ./script_is_misspelled.sh     (2 GPUs)
set -e
cd "$(dirname "$0")"
export NCCL_DEBUG=WARN
$PYTHON -m torch.distributed.run --standalone --nproc-per-node=2 trian_resnet.py --lr 0.1 --epochs 90
