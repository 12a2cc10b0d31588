"""Rules on what slows a run down: data, cores, stragglers, waiting."""
