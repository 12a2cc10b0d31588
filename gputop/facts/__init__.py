"""The facts that a rank states about itself: one schema, which tracking fills in and every reader uses."""
