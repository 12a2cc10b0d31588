"""Code that several rules share."""
