#!/usr/bin/env bash
# taskset keeps a rank's threads from wandering between sockets (helped a lot on the old node)
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29655}" WORLD_SIZE=2
cpu=0
pids=()
for local in 0 1; do
    RANK=$local LOCAL_RANK=$local taskset -c $cpu "${PYTHON:-python}" -u pinned_both.py &
    pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM EXIT
wait
