"""The contract between the engine and its plugins, and the runtime that keeps it.

Source of the vocabulary: k8s.io/kube-scheduler framework (v0.36).
"""
