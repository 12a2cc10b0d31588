#!/bin/bash
# Rehearsal of the two node job on my workstation, before I queue it.
PORT=${PORT:-29555}
PY=${PYTHON:-python}
launch() {
  $PY -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --node-rank="$1" \
    --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:$PORT --rdzv-id=rehearsal "$2"
}
trap 'kill $(jobs -p) 2>/dev/null' EXIT INT TERM
echo "node 0"
launch 0 two_nodes_one_box.py &
sleep 2
echo "node 1"
( cd node1 2>/dev/null || exit 1; launch 1 two_nodes_one_box.py ) &
wait
