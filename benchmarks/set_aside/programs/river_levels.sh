#!/usr/bin/env bash
# usage: ./river_levels.sh [config]      starts what the config says, one process per listed card
set -eu
cd "$(dirname "$0")"
cfg=${1:-river_levels.yaml}
get() { sed -n "s/^  $1: *//p" "$cfg"; }
gpus=$(get gpus)
nproc=$(tr -cd , <<< "$gpus" | wc -c)
# CUDA_VISIBLE_DEVICES on the machines with real cards
export CUDA_VISIBLE_DEVICES="$gpus" GPUTOP_VIRTUAL_DEVICES="$gpus"
echo "$(get script) on cards $gpus"
exec "${PYTHON:-python}" -m torch.distributed.run --nproc-per-node=$((nproc + 1)) --master-port="${PORT:-29544}" "$(get script)" "$cfg"
