"""The client of the API server, and of extenders: paths, verbs, bodies and errors.

Only this package imports the `kubernetes` package, and only to read kubeconfigs.
The purpose of a request is the caller's business.
"""
