#!/bin/bash
# mpirun version of the slurm script
cd "$(dirname "$0")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29611}
exec mpirun -np 2 --oversubscribe --bind-to none bash -c '
  export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=${SLURM_LOCALID:-0}
  exec ${PYTHON:-python} -u under_mpirun.py --hidden 320'
