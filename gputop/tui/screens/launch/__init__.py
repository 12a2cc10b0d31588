"""The launch screen: its list, its form, its log."""
