"""What the numbers in the lines of several ranks or hosts say when compared."""
