"""Decisions: from events to instructions, without I/O, clock or logs."""
