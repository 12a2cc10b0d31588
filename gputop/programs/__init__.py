"""Commands of other programs, such as ``squeue`` and ``kubectl``: asked once, within a deadline, and not trusted."""
