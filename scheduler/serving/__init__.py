"""Health, metrics and debug endpoints over TLS, and who may see which.

    server.py           listens, and puts the parts together
    health.py           /healthz /livez /readyz
    endpoints.py        /metrics /configz /statusz /flagz /debug/...
    authentication.py   who is asking
    authorization.py    who may see what
    connections.py      how many may be connected, and for how long
    limits.py           how much strangers may make us ask and say
    certificates.py     the server's certificate and the authorities of clients
    tls.py              TLS contexts that follow their files

What is shown comes in as callables; the room knows neither queue nor cache.

Source: cmd/kube-scheduler/app server.go; k8s.io/apiserver pkg/server (1.36.3).
"""
