"""What screens are given: the view, the settings, the keys. Imports no Textual."""
