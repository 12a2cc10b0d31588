"""The bounded history of a stream: series of readings and metrics, and their columns for a chart."""
