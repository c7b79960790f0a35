"""A copy of the API server's objects in memory: one list+watch state machine per kind.

Informers decode objects, keep them in stores and notify handlers of changes. What a change means
for scheduling is the engine's business.
"""
