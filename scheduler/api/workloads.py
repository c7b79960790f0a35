"""The objects whose selectors say which pods belong together: Services and controllers.

Source: k8s.io/api core/v1, apps/v1 types.go (v0.36).
"""

from scheduler.api.objects import LabelSelector, ObjectMeta
from scheduler.api.wire import ApiStruct


class ServiceSpec(ApiStruct, frozen=True):
    """The selector of a Service."""

    selector: dict[str, str] = {}


class Service(ApiStruct, frozen=True):
    """A Service or a ReplicationController: both select by equality."""

    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


ReplicationController = Service


class WorkloadSpec(ApiStruct, frozen=True):
    """The selector of a ReplicaSet or StatefulSet."""

    selector: LabelSelector | None = None


class Workload(ApiStruct, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()


ReplicaSet = Workload
StatefulSet = Workload
