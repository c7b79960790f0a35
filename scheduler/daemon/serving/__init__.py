"""Health, metrics and debug endpoints over TLS, with access control.

    server.py           listens, and puts the parts together
    health.py           /healthz /livez /readyz
    endpoints.py        /metrics /configz /statusz /flagz /debug/...
    authentication.py   identifies the user
    authorization.py    decides what the user may read
    connections.py      limits on the number and the duration of connections
    limits.py           limits the reviews that unauthenticated clients cause
    certificates.py     the server's certificate and the authorities of clients
    tls.py              TLS contexts that follow their files

The endpoints get their content from callables. The package depends on neither queue nor cache.

Source: cmd/kube-scheduler/app server.go; k8s.io/apiserver pkg/server (1.36.3).
"""
