"""Devices: what drivers publish, what claims ask for, and which devices they get.

Pure: slices, classes and allocations come in as objects, answers go out as columns over the nodes.
Source: k8s.io/dynamic-resource-allocation structured (v0.36.3).
"""
