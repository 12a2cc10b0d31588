"""The NVIDIA driver as a source. The only package that calls all of NVML."""
