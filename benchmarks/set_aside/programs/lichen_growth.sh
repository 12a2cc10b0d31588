#!/usr/bin/env bash
# ./lichen_growth.sh           run A (warm site) and run B (cold site)
# CARD picks the card; on the real machines it goes to CUDA_VISIBLE_DEVICES
cd "$(dirname "$0")"
site() {
    GPUTOP_VIRTUAL_DEVICES="${CARD:-0}" nohup "${PYTHON:-python}" -u lichen_growth.py site="$1" model.width="$2" &
}
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
CARD=0 site warm 40
cARD=1 site cold 56
wait
