#!/bin/bash
# two workers on this box
cd "$(dirname "$0")"
export WORKERS=2
for i in 0 1; do
    LOCAL_RANK=$i ${PYTHON:-python3} -u bus_ridership.py --config bus_ridership.yaml &
done
wait
