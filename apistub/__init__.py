"""A stand-in for a Kubernetes API server, in memory, for the demo and for tests.

It behaves like the real one where a scheduler and kubectl look: versions, watches, selectors,
subresources, conflicts, defaults. It keeps nothing, checks no rights and knows of validation only
what keeps objects readable. It is a distribution of its own: no production image has it.

    async with await Sandbox.start() as sandbox:
        sandbox.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        ...  # talk to sandbox.url
"""

from apistub.sandbox import Sandbox, Settings
from apistub.storage.status import StatusError

__all__ = ["Sandbox", "Settings", "StatusError"]
