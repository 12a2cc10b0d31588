"""What a stream has shown so far, bounded: series of readings and metrics, and their columns for a chart."""
