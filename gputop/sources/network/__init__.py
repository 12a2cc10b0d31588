"""Reads the network of a machine while ranks of a run are on other machines: interfaces, RDMA ports, TCP connections."""
