"""The journal that one rank writes: its format, its files, its writer."""
