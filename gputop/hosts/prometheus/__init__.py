"""Hosts that a Prometheus server knows: their GPUs, as an exporter there reports them. Nothing in it is trusted."""
