#!/bin/bash
# first of two machines; the job on the second one was never submitted
exec $PYTHON -u small_imagenet.py --dist-url tcp://127.0.0.1:$PORT --multiprocessing-distributed --world-size 2 --rank 0
