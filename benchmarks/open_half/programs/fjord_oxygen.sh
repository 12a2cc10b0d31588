#!/bin/sh
# ./fjord_oxygen.sh [options of the script]
cd "$(dirname "$0")" || exit
set -a
. ./fjord_oxygen.env
set +a
# the emulator's cards have a mask of their own
export GPUTOP_VIRTUAL_DEVICES="$CUDA_VISIBLE_DEVICES"
exec "${PYTHON:-python}" -u fjord_oxygen.py "$@"
