"""Devices: published slices, the requests of claims, and the allocation of devices to claims.

Pure: the room takes slices, classes and allocations as objects, and returns columns over the nodes.
Source: k8s.io/dynamic-resource-allocation structured (v0.36.3).
"""
