#!/bin/bash
# the cluster's wrapper sets the variables; the script has not been ported yet
logs=$(mktemp -d)
trap 'rm -rf $logs' EXIT
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT \
        $PYTHON -u world_of_ones.py --eval_interval 5 > $logs/rank$rank.log 2>&1 &
done
wait
