#!/bin/bash
#SBATCH --job-name=kilns
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=10
#SBATCH --time=12:00:00
cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")}" || exit 1
"${PYTHON:-python}" -m torch.distributed.run --standalone --nproc_per_node=2 brick_kilns.py --threads "${SLURM_CPUS_PER_TASK:-10}"
