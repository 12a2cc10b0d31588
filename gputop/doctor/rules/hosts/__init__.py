"""Rules on runs that span hosts: a slow host, an isolated host, or a host that the others wait for."""
