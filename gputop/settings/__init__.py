"""The user's settings: the table of them, their values, their checks, and the file that holds them."""
