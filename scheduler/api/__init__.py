"""Cluster objects as scheduling reads them, and operations on them.

This room uses no network, no clock and no other room.
"""
