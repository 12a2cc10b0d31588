#!/usr/bin/env bash
# bash overnight.sh    (start it before you go home)
set -u
cd "$(dirname "$0")"
RUN="${PYTHON:-python} -m torch.distributed.run --standalone --nproc_per_node=2"
TEST=${TEST:-timeout 40}   # smoke test; leave empty for the real thing
$TEST $RUN overnight.py --epochs 300
echo "overnight.sh: done with code $?"
