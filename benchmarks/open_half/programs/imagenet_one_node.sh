#!/bin/bash
exec $PYTHON -u small_imagenet.py --dist-url tcp://127.0.0.1:$PORT --multiprocessing-distributed --world-size 1 --rank 0
