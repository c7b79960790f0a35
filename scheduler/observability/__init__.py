"""Metrics, logs and traces: declared once, cheap where they are written.

The room knows nothing about scheduling; other rooms hand it numbers, texts and callables.
"""
