"""Metrics, logs and traces: declared once, cheap where they are written.

The package knows nothing about scheduling; other packages pass it numbers, texts and callables.
"""
