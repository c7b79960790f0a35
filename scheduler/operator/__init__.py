"""`stowage operator`: reconciles instances and profiles of teams, which are custom resources.

The operator is a process of its own, on which daemons do not depend. `plan` and `desired` are pure;
`Reconciler` applies their results, and runs after each watch event.
"""
