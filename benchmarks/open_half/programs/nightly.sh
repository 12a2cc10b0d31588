#!/usr/bin/env bash
# card 0 trains, card 1 looks at each new checkpoint
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT INT TERM
GPUTOP_VIRTUAL_DEVICES=0 "${PYTHON:-python}" nightly_train.py "$work" &
GPUTOP_VIRTUAL_DEVICES=1 "${PYTHON:-python}" nightly_eval.py "$work" &
wait
