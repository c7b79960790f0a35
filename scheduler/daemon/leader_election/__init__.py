"""Which one of several schedulers schedules: a Lease, and never two leaders at once."""
