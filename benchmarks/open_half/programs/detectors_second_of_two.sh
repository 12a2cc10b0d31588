#!/bin/bash
exec $PYTHON -u detectors_first_machine.py --config-file configs/faster_rcnn.yaml --num-gpus 2 --num-machines 2 \
    --machine-rank 1 --dist-url tcp://127.0.0.1:$PORT
