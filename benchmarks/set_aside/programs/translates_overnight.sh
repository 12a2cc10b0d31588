#!/bin/sh
# The cards are for training: translation is on the CPU on purpose.
cd "$(dirname "$0")"
export CUDA_VISIBLE_DEVICES="" GPUTOP_VIRTUAL_DEVICES=""
exec ${PYTHON:-python} -u translates_overnight.py --device cpu --threads 2 --beam 3
