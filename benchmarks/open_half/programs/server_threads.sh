#!/bin/bash
# copied from the big box: 64 cores, two sockets
set -e
export OMP_NUM_THREADS=32 MKL_NUM_THREADS=32
exec "${PYTHON:-python}" -m torch.distributed.run --nnodes=1 --nproc_per_node=2 --master_port="${PORT:-29517}" server_threads.py --hidden 768 --log-every 10
