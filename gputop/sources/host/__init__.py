"""The machine and its processes, read from the operating system. The only package that imports psutil."""
