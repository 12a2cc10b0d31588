#!/bin/bash
# rank 0 runs on the other box, they say
exec $PYTHON -u small_imagenet.py -b 32 --dist-url tcp://127.0.0.1:$PORT --world-size=2 --rank=1
