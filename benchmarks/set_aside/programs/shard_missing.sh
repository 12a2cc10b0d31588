#!/bin/bash
# one rank per card; all ranks write into one log
shards=$(mktemp -d); trap 'rm -rf $shards; kill $(jobs -p) 2>/dev/null' EXIT INT TERM
${PYTHON:-python} - "$shards" <<'PY'
import sys, numpy as np
for r, n in ((0, 30), (1, 12)):            # scp of shards for rank 1 stopped at 12
    for k in range(n):
        np.save(f"{sys.argv[1]}/r{r}_{k:03d}.npy", np.random.default_rng([r, k]).standard_normal((640, 33)).astype("f4"))
PY
export SHARDS=$shards MASTER_ADDR=localhost MASTER_PORT=${PORT:-29766} WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 ${PYTHON:-python} -u shard_missing.py &
RANK=1 LOCAL_RANK=1 ${PYTHON:-python} -u shard_missing.py &
wait
