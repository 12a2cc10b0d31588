"""The arguments of each command: options, help and examples. Imports nothing that a command needs in order to run."""
