#!/bin/bash
# poor man's scheduler: a card takes its next job when its last one ends
work() {
  card=$1; shift
  for job in "$@"; do
    GPUTOP_VIRTUAL_DEVICES=$card "${PYTHON:-python}" -u queue_of_jobs.py $job
    sleep 2
  done
}
trap 'kill $(jobs -p) 2>/dev/null; exit' INT TERM
work 0 "--task ridge --steps 900" "--task mlp --steps 1500" "--task deep --steps 900000" &
work 1 "--task deep --steps 700" "--task ridge --steps 900000" &
wait
