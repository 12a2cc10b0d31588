"""The journal that one rank writes: its format, its places, its reader, and who writes it."""
