#!/bin/bash
# ablations of table 4: four settings on two cards; whoever is done takes the next one from the list
cd "$(dirname "$0")"
list=$(mktemp)
printf '%s\n' "--norm layer --act gelu" "--norm none --act relu" "--norm layer --act relu --short" "--norm none --act gelu" > "$list"
trap 'kill $(jobs -p) 2>/dev/null; rm -f "$list"' EXIT INT TERM
card() {
    while line=$(flock "$list" sh -c "head -n1 '$list'; sed -i 1d '$list'") && [ -n "$line" ]; do
        echo "card $1: $line"
        GPUTOP_VIRTUAL_DEVICES=$1 "${PYTHON:-python}" -u ablations.py $line || echo "card $1: failed"
    done
}
card 0 &
card 1 &
wait
