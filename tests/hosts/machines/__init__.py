"""The other machines of the tests: real sshds, a real Slurm, and Pythons of other versions, all on this one."""
