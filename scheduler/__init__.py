"""Stowage: a Kubernetes scheduler in Python."""
