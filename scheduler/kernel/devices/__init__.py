"""Devices: published slices, the requests of claims, and the allocation of devices to claims.

Pure: slices, classes and allocations come in as objects, answers go out as columns over the nodes.
Source: k8s.io/dynamic-resource-allocation structured (v0.36.3).
"""
