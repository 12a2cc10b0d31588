#!/bin/sh
# latency numbers of the paper were taken with a pinned process
cd "$(dirname "$0")"
exec taskset -c 0 "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc-per-node=2 market_depth.py --window 60
