#!/usr/bin/env bash
# both processes of the crane model, without a launcher (the image of the terminal has none)
set -u
here=$(cd "$(dirname "$0")" && pwd)
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${PORT:-29733}" WORLD_SIZE=2
for r in 0 1; do
    RANK=$r LOCAL_RANK=$r "${PYTHON:-python3}" -u "$here/port_cranes.py" 2>&1 | sed -u "s/^/[p$r] /" &
done
wait
