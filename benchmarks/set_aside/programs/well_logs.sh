#!/bin/bash
# keeps the training alive on the preemptible machines: starts it again wherever the last checkpoint is
cd "$(dirname "$0")"
export RUN=$(mktemp -d)
trap 'rm -rf "$RUN"' EXIT
trap 'kill $child 2>/dev/null; exit 143' INT TERM
end=$((SECONDS + 200))
while [ $SECONDS -lt $end ]; do
    if [ -e "$RUN/last.pt" ]; then more="--resume $RUN/last.pt"; else more=""; fi
    "${PYTHON:-python}" -u well_logs.py --out "$RUN" $more & child=$!
    wait $child
    status=$?
    [ $status = 0 ] && break
    echo "$(date +%T) ended with $status, next try in 5 s"
    sleep 5 & wait $!
done
