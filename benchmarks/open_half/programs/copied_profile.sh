#!/bin/sh
# start one process per card: ./copied_profile.sh
# (lines below copied from ~/.profile of the old workstation, which had one card)
export GPUTOP_VIRTUAL_DEVICES=0    # the box's CUDA_VISIBLE_DEVICES
export OMP_NUM_THREADS=1
: "${PYTHON:=python}" "${PORT:=29511}"

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT WORLD_SIZE=2
RANK=0 nohup "$PYTHON" -u copied_profile.py cfg=copied_profile.yaml 2>&1 &
RANK=1 nohup "$PYTHON" -u copied_profile.py cfg=copied_profile.yaml 2>&1 &
wait
