#!/bin/bash
# restarts: the card of this workstation falls off the bus now and then
cd "$(dirname "$0")"
exec timeout 225 "${PYTHON:-python}" -m torch.distributed.run --standalone --max-restarts=60 --nproc-per-node=1 bearing_vibration.py
