#!/bin/bash
# both cards
cd "$(dirname "$0")" || exit 1
"${PYTHON:-python}" -m torch.distributed.run --standalone --nproc_per_node=2 otter_tracks.py --epochs 60 --batch-size 32
