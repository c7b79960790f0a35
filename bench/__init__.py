"""Benchmarks: stowage beside kube-scheduler on a real API server, and decisions without I/O."""
