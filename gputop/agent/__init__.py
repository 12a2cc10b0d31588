"""The two ends of the stream: the sampler that takes snapshots, and the feed from which a screen reads them."""
