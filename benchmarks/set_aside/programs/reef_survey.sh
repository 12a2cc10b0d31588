#!/bin/bash
# The cards of the ship fall out now and then, so torchrun starts the ranks again by itself.
cd "$(dirname "$0")"
exec timeout 225 "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc-per-node=2 --max-restarts=40 reef_survey.py
