"""The contract of a generated feature: what one plugin's worth of randomness may touch."""

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object


class Feature:
    """One aspect of clusters; a family of cases is a choice of features with their density.

    `density` is the probability with which a pod (or node) gets the aspect at all.
    """

    def __init__(self, density: float = 0.8, *, configured: float = 0.0) -> None:
        self.density = density
        self.configured = configured
        """Probability that the case configures the plugin instead of taking its defaults."""

    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        """Add objects or plugin arguments; runs before nodes and pods are shaped."""

    def shape_node(self, draw: Draw, node: Object) -> None:
        """Change one node."""

    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        """Change one pod; `spec.nodeName` tells whether it runs already."""
