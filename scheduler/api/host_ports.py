"""The host ports of pods."""

import msgspec

from scheduler.api.objects import PodSpec


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port that a pod occupies on an address of its node."""

    host_ip: str
    protocol: str
    port: int


def host_ports_of(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of a pod's containers and sidecars.

    Source: pkg/scheduler/framework/types.go; k8s.io/kubernetes util.GetHostPorts.
    """
    containers = [c for c in spec.init_containers if c.restart_policy == "Always"]
    containers.extend(spec.containers)
    return tuple(
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104 - the wildcard address of the API
        for container in containers
        for port in container.ports
        if port.host_port > 0
    )
