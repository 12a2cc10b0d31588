"""How each command is written: its options, its help and its examples. Imports nothing that a command needs in order to run."""
