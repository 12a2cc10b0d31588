#!/bin/bash
#SBATCH --job-name=ledgers
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH --time=1-00:00:00
#SBATCH --output=ledgers-%j.out
set -e
cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")}"
echo "$(date +%T) two cards, batch 12 each"
exec "${PYTHON:-python}" -u -m accelerate.commands.launch --config_file parish_ledgers.yaml parish_ledgers.py --batch-size 12 --epochs 400
