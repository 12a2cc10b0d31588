#!/bin/bash
# head node; the second box is started by Tom
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT WORLD_SIZE=2 RANK=0 LOCAL_RANK=0
exec $PYTHON -u one_of_two.py --hidden 64
