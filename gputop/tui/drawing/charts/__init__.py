"""What charts share: their axes."""
