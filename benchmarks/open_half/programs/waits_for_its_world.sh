#!/bin/sh
# two GPUs in this box
cd "$(dirname "$0")" || exit 1
${PYTHON:-python} -u waits_for_its_world.py -a resnet10 -b 64 --workers 2 --print-freq 10 \
    --dist-url "tcp://127.0.0.1:${PORT:-23456}" --dist-backend gloo --world-size 2 --rank 0
