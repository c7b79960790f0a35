"""What the API server holds, kept in memory: one list+watch state machine per kind.

Informers decode objects, keep them in stores and tell handlers what changed. They never know what
a change means.
"""
