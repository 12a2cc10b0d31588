#!/bin/bash
# two terminals of one person
GPUTOP_VIRTUAL_DEVICES=0 $PYTHON -u small_imagenet.py --dist-url tcp://127.0.0.1:$PORT --world-size 2 --rank 0 &
sleep 12
GPUTOP_VIRTUAL_DEVICES=1 $PYTHON -u small_imagenet.py --dist-url tcp://127.0.0.1:$PORT --world-size 2 --rank 1 &
wait
