"""Leader election by a Lease: at most one of several schedulers leads at a time."""
