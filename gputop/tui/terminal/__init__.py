"""Colors, and how what the screen shows reaches the terminal in few bytes."""
