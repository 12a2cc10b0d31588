#!/bin/bash
# Train on both cards of the box in the lab. Usage: bash tyre_treads.sh [config]
cd "$(dirname "$0")"
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=${PORT:-29511}
NGPU=2
CONFIG=${1:-tyre_treads.yaml}

echo "$(hostname): $NGPU processes, $CONFIG"
for ((i = 0; i < NGPU; i++)); do
    RANK=$i LOCAL_RANK=$i ${PYTHON:-python} -u tyre_treads.py --config "$CONFIG" &
done
wait
