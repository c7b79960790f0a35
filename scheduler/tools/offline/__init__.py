"""Runs the engine on files instead of a cluster, to explain and to simulate.

Plugins, snapshot and queue are those of the daemon. There is no API server, and time is injected.
"""
