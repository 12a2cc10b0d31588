"""What commands print, and how: tables, one reading as text, and an output that nothing printed can control."""
