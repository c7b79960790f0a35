"""Answers to questions about decisions: reads of an engine, for commands and for the daemon alike.

Nothing here changes what it reads, knows where the cluster comes from, or how answers are shown.
"""
