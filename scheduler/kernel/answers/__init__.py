"""Answers questions about decisions by reading an engine, for commands and for the daemon.

This package changes no input, and depends neither on the cluster's source nor on output formats.
"""
