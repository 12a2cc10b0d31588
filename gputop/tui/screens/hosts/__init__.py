"""The hosts screen: its list, its filter, the details of one host."""
