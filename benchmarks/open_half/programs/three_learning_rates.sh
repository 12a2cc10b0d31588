#!/bin/bash
# which learning rate for the river gauges? one log per run
cd "$(dirname "$0")"
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$logs"' EXIT TERM INT
for lr in 1e-2 1e-3; do
  nohup ${PYTHON:-python3} -u three_learning_rates.py --lr $lr > "$logs/gauges_lr$lr.log" 2>&1 &
done
sleep 20
tail -n 2 "$logs"/*.log
wait
