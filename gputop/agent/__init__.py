"""The two ends of the stream: the sampler that makes snapshots, and the feed that a screen reads them from."""
