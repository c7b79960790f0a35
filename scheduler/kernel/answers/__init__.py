"""Answers to questions about decisions: reads of an engine, for commands and for the daemon alike.

Nothing here changes its input, knows the source of the cluster, or how answers are shown.
"""
