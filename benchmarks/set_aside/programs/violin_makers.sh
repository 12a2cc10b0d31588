#!/bin/sh
# Two ranks without torchrun (it is not installed in the conservation lab).
set -e
cd "$(dirname "$0")"
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29577}" WORLD_SIZE=2
for rank in 0 1; do
    echo "starting rank $rank"
    RANK=$rank LOCAL_RANK=$rank "${PYTHON:-python}" -u violin_makers.py
done
echo "both ranks are done"
