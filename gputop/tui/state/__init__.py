"""What the screens draw from: the view, the settings and the keys. Imports no Textual."""
