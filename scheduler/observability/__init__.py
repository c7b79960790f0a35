"""Metrics, logs and traces: declared in one place, cheap to write.

The package does not depend on scheduling; other packages pass it numbers, texts and callables.
"""
