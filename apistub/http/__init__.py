"""Requests in, answers and watch streams out, faults in between."""
