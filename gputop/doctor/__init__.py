"""Names causes: evidence in, findings out; no I/O, no clock, no NVML."""
