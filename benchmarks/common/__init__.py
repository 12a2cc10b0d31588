"""What several benchmarks need: a namespace of their own, an end on signals, and pages to write figures into."""
