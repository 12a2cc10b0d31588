"""The NVIDIA driver as a source. The only package that imports pynvml."""
