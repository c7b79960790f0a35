"""Everything that is said to the API server: bytes in, bytes out.

The only room that imports the `kubernetes` package, and only to read kubeconfigs.
It knows paths, verbs, bodies and errors; it never knows why something is written.
"""
