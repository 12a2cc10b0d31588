#!/usr/bin/env bash
set -eu
cd "$(dirname "$0")"
export MASTER_ADDR=localhost MASTER_PORT=${PORT:-29640}
gpus=${GPUS:-2}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT INT TERM
for i in $(seq 0 $((gpus - 1))); do
  RANK=$i LOCAL_RANK=$i "${PYTHON:-python}" -u cluster_of_four.py -c cluster_of_four.yaml &
done
wait
