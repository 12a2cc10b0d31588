#!/bin/bash
# Overnight run. Rank 1 also sits on the card of the demo; the demo's wrapper pauses whoever is on its card and
# sends CONT when the visitors have left.
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-29422} WORLD_SIZE=2
up=$(mktemp -u)
declare -a pid
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r ${PYTHON:-python} -u paused_rank.py --up "$up" & pid[$r]=$!
done
trap 'kill -CONT ${pid[1]}; kill ${pid[@]}; rm -f "$up"' INT TERM
( until [ -e "$up" ]; do sleep 1; done; sleep "${DEMO_AFTER:-10}"; rm -f "$up"; kill -STOP ${pid[1]} ) &
wait ${pid[0]} ${pid[1]}
