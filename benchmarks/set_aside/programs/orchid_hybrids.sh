#!/usr/bin/env bash
set -u
cd "$(dirname "$0")"
# as many processes as there are cards
N=$(nvidia-smi --list-gpus 2> /dev/null | grep -c UUID) || true
[ "$N" -ge 1 ] || N=1
echo "+ torchrun --nproc-per-node=$N orchid_hybrids.py"
exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc-per-node="$N" orchid_hybrids.py
