"""Leader election among several schedulers: a Lease, and never two leaders at once."""
