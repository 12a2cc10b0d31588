"""Tracked runs drawn side by side: their list, their curves, and what differs between them."""
