"""`stowage operator`: whole instances, and profiles of teams, as custom resources.

A separate process; the daemon knows nothing of it. `plan` and `desired` decide and are pure,
`Reconciler` applies their results; watches wake it.
"""
