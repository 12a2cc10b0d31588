"""Where every rank of a run is: the records of an answer, who waits for whom, and both in words. Pure."""
