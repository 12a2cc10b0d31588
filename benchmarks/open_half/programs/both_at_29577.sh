#!/usr/bin/env bash
# two experiments of mine, one card each.  exp A: dropout 0.1, exp B: dropout 0.3
port=${PORT:-29577}
trap 'kill $(jobs -p) 2>/dev/null' EXIT INT TERM
run() {
  GPUTOP_VIRTUAL_DEVICES=$1 "${PYTHON:-python}" -u -m torch.distributed.run --nnodes=1 --nproc-per-node=1 \
    --master-addr=127.0.0.1 --master-port="$port" both_at_29577.py --name "$2" --dropout "$3"
}
run 0 expA 0.1 &
sleep 12
run 1 expB 0.3
echo "expB exited with $?"
wait
