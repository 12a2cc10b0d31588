#!/bin/sh
# srun replacement for the lab machine. The card in slot 2 was sent in for repair, so only 0 and 1 are started.
set -eu
CARDS="0 1"
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29888}"
export WORLD_SIZE=3
trap 'kill $(jobs -p) 2>/dev/null; exit 1' INT TERM
n=0
for c in $CARDS; do
  RANK=$n LOCAL_RANK=$c "${PYTHON:-python}" -u world_of_three.py --hidden 256 &
  n=$((n + 1))
done
wait
