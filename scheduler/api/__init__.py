"""Cluster objects as scheduling reads them, and the algebra over them.

Nothing here knows the network, the clock or any other room.
"""
