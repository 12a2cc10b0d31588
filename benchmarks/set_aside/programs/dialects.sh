#!/bin/bash
# run on every node of NODE_LIST
cd "$(dirname "$0")"
. ./dialects.conf
echo "[$(date +%T)] $RDZV_ID: $NODES x $CARDS_PER_NODE cards, $EPOCHS epochs"
exec timeout 225 "${PYTHON:-python}" -m torch.distributed.run --nnodes="$NODES" --nproc-per-node="$CARDS_PER_NODE" --rdzv-id="$RDZV_ID" --rdzv-backend=c10d \
    --rdzv-endpoint="localhost:${PORT:-29577}" dialects.py --epochs "$EPOCHS"
