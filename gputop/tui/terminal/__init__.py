"""Colors, and sending the screen to the terminal in few bytes."""
