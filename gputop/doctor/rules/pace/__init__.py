"""Rules on what slows a run down: data, stragglers, waiting."""
