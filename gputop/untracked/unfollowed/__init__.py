"""What is printed by processes that are not followed as untracked runs: tracked runs, and launchers without ranks."""
