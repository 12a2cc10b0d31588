#!/bin/bash
# TODO: the second terminal
exec $PYTHON -u small_imagenet.py -a resnet18 --dist-url tcp://127.0.0.1:$PORT --world-size 2 --rank 0 /data/imagenet
