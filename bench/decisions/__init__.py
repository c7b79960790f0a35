"""How long one decision takes, without any I/O, and how that grows with the cluster."""
