"""The files in which training libraries record a run, read as they grow. Nothing in them is trusted."""
