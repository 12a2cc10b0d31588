"""Rules on the cores and the shared memory that ranks and their workers share: family cpu."""
