"""The engine on files instead of a cluster: explain and simulate.

The same plugins, snapshot and queue as in the daemon; no API server, no clock but an injected one.
"""
