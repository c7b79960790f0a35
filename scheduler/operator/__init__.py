"""`stowage operator`: whole instances, and profiles of teams, as custom resources.

A process of its own; the daemon knows nothing of it. `plan` and `desired` decide and are pure,
`Reconciler` applies what they say; watches wake it.
"""
