"""What can be launched: bundled demos, faults, and the user's own commands."""
