"""What commands print, and how: tables, one reading as text, and an output that keeps control characters from a terminal."""
