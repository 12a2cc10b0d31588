#!/bin/sh
# the shell keeps the terminal's side of the debugger open
mkfifo_dir=$(mktemp -d); mkfifo "$mkfifo_dir/in"
sleep 1000 > "$mkfifo_dir/in" & keep=$!
trap 'kill $keep; rm -r "$mkfifo_dir"' EXIT INT TERM
"${PYTHON:-python}" -u under_pdb.py < "$mkfifo_dir/in"
