#!/bin/bash
#SBATCH --job-name=bogies
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --time=08:00:00
# The workshop's server has no slurmd any more: this does what "srun python rail_bogies.py" did there.
PYTHON=${PYTHON:-python}
export SLURM_NTASKS=2 SLURM_NNODES=1
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29511}
trap 'kill $(jobs -p) 2>/dev/null' TERM INT
echo "starting $SLURM_NTASKS tasks on $(uname -n)"
for task in 0 1; do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$PYTHON" -u rail_bogies.py --batch_size 64 --epochs 60 &
done
wait
