#!/bin/sh
# CPU settings from the performance tuning guide
export OMP_SCHEDULE=STATIC OMP_PROC_BIND=CLOSE OMP_PLACES=cores OMP_NUM_THREADS=1
cd "$(dirname "$0")"
exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc-per-node 2 reindeer_herds.py --channels 16
