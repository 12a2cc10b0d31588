"""The facts that a rank states about itself: one schema, which tracking fills and every reader reads through."""
