"""The training side: a run writes one journal per rank, the reader joins them. Imports the standard library alone."""
