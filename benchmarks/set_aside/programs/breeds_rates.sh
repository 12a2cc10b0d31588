#!/bin/bash
# a population of two; they meet in a folder
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT INT TERM
member=0
for card in ${GPUTOP_VIRTUAL_DEVICES//,/ }; do
    GPUTOP_VIRTUAL_DEVICES=$card "${PYTHON:-python}" -u breeds_rates.py $member "$folder" &
    member=$((member + 1))
done
wait
