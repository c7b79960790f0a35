"""A stand-in for a Kubernetes API server, in memory, for the demo, tests and simulation.

It behaves like the real one where a scheduler and kubectl look: versions, watches, selectors,
subresources, conflicts, defaults, validation. It keeps nothing, checks no rights and runs no
controllers. The daemon never imports it.

    async with await Sandbox.start() as sandbox:
        sandbox.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        ...  # talk to sandbox.url
"""

from scheduler.sandbox.accounts import Account
from scheduler.sandbox.sandbox import Sandbox, Settings
from scheduler.sandbox.status import StatusError

__all__ = ["Account", "Sandbox", "Settings", "StatusError"]
