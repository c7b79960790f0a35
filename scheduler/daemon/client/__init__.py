"""The client of the API server: bytes in, bytes out.

The only package that imports the `kubernetes` package, and only to read kubeconfigs.
It knows paths, verbs, bodies and errors; it does not know the purpose of a write.
"""
