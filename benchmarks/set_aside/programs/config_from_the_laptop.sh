#!/usr/bin/env bash
# ./config_from_the_laptop.sh [config]     number of GPUs etc. all come from the yaml
set -e
cd "$(dirname "$0")"
CFG=${1:-config_from_the_laptop.yaml}
NGPU=$(awk '/^ *gpus:/ {print $2}' "$CFG")
echo "launching on $(hostname) with $CFG"
exec ${PYTHON:-python} -m torch.distributed.run --standalone --nproc_per_node="$NGPU" config_from_the_laptop.py --config "$CFG"
