#!/bin/bash
# run_all.sbatch for a box without a queue: the same variables that srun would set, one process per card
cd "$(dirname "$0")"
export SLURM_NTASKS=2 MASTER_ADDR=localhost MASTER_PORT=${PORT:-29561}
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
for ((task = 0; task < SLURM_NTASKS; task++)); do
    SLURM_PROCID=$task SLURM_LOCALID=$task LOCAL_RANK=$task "${PYTHON:-python}" -u tide_gauges.py --epochs 400 &
done
wait
