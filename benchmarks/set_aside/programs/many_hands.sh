#!/bin/bash
# settings of the DGX, where this took 9 minutes an epoch
cd "$(dirname "$0")"
ARGS="--workers 14 --batch 32 --lr 2e-3"
echo "+ many_hands.py $ARGS"
exec ${PYTHON:-python3} -u many_hands.py $ARGS "$@"
