#!/bin/bash
# card 0 trains, card 1 scores each new checkpoint (beam search is slow, so not in the training loop)
py=${PYTHON:-python}
ckpt=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$ckpt"; exit' INT TERM EXIT
GPUTOP_VIRTUAL_DEVICES=0 "$py" -u train_and_eval.py train --dir "$ckpt" &
GPUTOP_VIRTUAL_DEVICES=1 "$py" -u train_and_eval.py eval --dir "$ckpt" &
wait
