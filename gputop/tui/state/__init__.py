"""What the screens draw from: the view, the layout and the keys. Imports no Textual."""
