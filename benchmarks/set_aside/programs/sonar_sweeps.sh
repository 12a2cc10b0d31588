#!/bin/sh
# as in the lab's wiki (2019)
exec "${PYTHON:-python}" -m torch.distributed.launch --nproc_per_node=2 --master_port="${PORT:-29511}" sonar_sweeps.py --lr 0.01
