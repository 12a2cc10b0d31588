#!/bin/bash
# The notebook server of the group also listens on this port.
$PYTHON -c "
import os, socket, time
s = socket.socket(); s.bind(('', int(os.environ['PORT']))); s.listen()
p = os.getppid()
while os.getppid() == p: time.sleep(0.2)
" &
sleep 1
$PYTHON -m torch.distributed.run --nnodes=1 --nproc-per-node=2 --master-addr=127.0.0.1 --master-port=$PORT tiny_ddp.py
kill %1
exit 1
