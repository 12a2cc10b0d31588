#!/bin/bash
# starts one process per card, without torchrun (the old image does not have it)
cd "$(dirname "$0")"
source ./wind_farm.env
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29517}" WORLD_SIZE="$CARDS"
i=0
for card in ${GPUTOP_VIRTUAL_DEVICES//,/ }; do
    RANK=$i LOCAL_RANK=$i GPUTOP_VIRTUAL_DEVICES=$card "${PYTHON:-python}" -u wind_farm.py &
    i=$((i + 1))
done
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
