"""Hosts as a Prometheus server tells of them: their GPUs, by what an exporter there says. Nothing of it is trusted."""
