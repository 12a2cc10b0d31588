#!/bin/bash
# Friday: start both and go home. ResNet-ish on card 0, the small autoencoder on card 1 (it will be done much earlier).
cd "$(dirname "$0")"
nohup env GPUTOP_VIRTUAL_DEVICES=0 "${PYTHON:-python}" -u nohup_pair.py resnet --steps 100000 2>&1 &
nohup env GPUTOP_VIRTUAL_DEVICES=1 "${PYTHON:-python}" -u nohup_pair.py auto --steps 600 2>&1 &
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
