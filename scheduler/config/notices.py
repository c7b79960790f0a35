"""What of a valid configuration has no effect here, to be said once at start."""

from collections.abc import Collection, Iterator

from scheduler.config.types import ClientConnectionConfiguration, KubeSchedulerConfiguration


def not_in_effect(
    config: KubeSchedulerConfiguration, implemented: Collection[str]
) -> tuple[str, ...]:
    """List what people should know before they rely on it, one sentence each.

    Args:
        config: as `load` returns it.
        implemented: the names of the plugins that exist here.
    """
    return tuple(_notices(config, implemented))


def _notices(config: KubeSchedulerConfiguration, implemented: Collection[str]) -> Iterator[str]:
    enabled = frozenset[str]().union(*(profile.plugins.names() for profile in config.profiles))
    missing = sorted(enabled.difference(implemented))
    if missing:
        yield (
            "These plugins are enabled but not part of this version; pods are placed without "
            f"them: {', '.join(missing)}"
        )
    if config.delay_cache_until_active:
        yield (
            "delayCacheUntilActive has no effect: a standby always keeps its cache warm, so that "
            "it can take over at once"
        )
    defaults = KubeSchedulerConfiguration()
    if config.parallelism != defaults.parallelism:
        yield "parallelism has no effect: all nodes are evaluated at once, in columns"
    connection, usual = config.client_connection, ClientConnectionConfiguration()
    if connection.content_type != usual.content_type or connection.accept_content_types:
        yield (
            "clientConnection.contentType and acceptContentTypes have no effect: requests are JSON"
        )
