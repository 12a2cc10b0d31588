"""The network of a machine: what a snapshot says about it, and how findings and screens say it. Ground floor."""
