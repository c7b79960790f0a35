"""A copy of the API server's objects in memory: one list+watch state machine per kind.

Informers decode objects, keep them in stores and notify handlers of changes. They never know what
a change means.
"""
