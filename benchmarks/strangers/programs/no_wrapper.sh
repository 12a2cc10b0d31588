#!/usr/bin/env bash
# usage: ./no_wrapper.sh ; trains on all workers of this box
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" -m torch.distributed.run --nproc_per_node 2 --master_port "${PORT:-29755}" "$HERE/no_wrapper.py"
