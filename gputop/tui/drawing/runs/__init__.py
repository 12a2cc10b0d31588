"""Tracked runs drawn beside one another: their list, their curves, and what differs between them."""
