"""Queueing hints of InterPodAffinity: changes that may make a rejected pod schedulable.

Source: kubernetes pkg/scheduler/framework/plugins/interpodaffinity/plugin.go (v1.36).
"""

from collections.abc import Iterable, Mapping, Sequence

from scheduler.api.affinity import AffinityTerm
from scheduler.api.objects import Namespace, Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.plugins.own_affinity_terms import speaks_of
from scheduler.kernel.snapshot.pod_selectors import pod_selector_of


def is_schedulable_after_pod_change(
    pod: PodInfo, old: PodInfo | None, new: PodInfo | None
) -> QueueingHint:
    """Queue if the pod itself changed, or if a placed pod begins or ceases to match.

    Source: plugin.go isSchedulableAfterPodChange.
    """
    if old is not None and new is not None and new.uid == pod.uid:
        return QueueingHint.QUEUE
    if not all(_is_placed(changed) for changed in (old, new) if changed is not None):
        return QueueingHint.SKIP
    near, away = _required_terms(pod)
    if new is None:
        helps = old is not None and (
            _matches_all(away, pod, old) or _matches_all(_required_terms(old)[1], old, pod)
        )
    elif old is None:
        helps = _matches_all(near, pod, new)
    else:
        attracts = _matches_all(near, pod, new) and not _matches_all(near, pod, old)
        repelled = _matches_all(away, pod, old) and not _matches_all(away, pod, new)
        helps = attracts or repelled
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def is_schedulable_after_node_change(
    pod: PodInfo, old: Node | None, new: Node | None
) -> QueueingHint:
    """Queue if a node joins, leaves or changes a domain of a required term.

    Source: plugin.go isSchedulableAfterNodeChange.
    """
    near, away = _required_terms(pod)
    before = None if old is None else old.metadata.labels
    now = {} if new is None else new.metadata.labels
    if before is None:
        # A node without the topology key of an anti-affinity term satisfies the term.
        helps = bool(away) or any(term.topology_key in now for term in near)
    else:
        changed = {t.topology_key for t in (*near, *away) if _value_changes(before, now, t)}
        helps = any(t.topology_key in changed and t.topology_key in now for t in near) or any(
            t.topology_key in changed and t.topology_key in before for t in away
        )
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def is_schedulable_after_namespace_change(
    pod: PodInfo, old: Namespace | None, new: Namespace
) -> QueueingHint:
    """Queue if the pod's terms select namespaces by label, or the pod is in the namespace.

    In the second case, anti-affinity terms of running pods may no longer select the namespace.

    Differs: upstream registers no namespace events.
    """
    near, away = _required_terms(pod)
    selects = any(not term.namespace_selector.nothing for term in (*near, *away))
    helps = selects or (old is not None and new.metadata.name == pod.namespace)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _value_changes(before: Mapping[str, str], now: Mapping[str, str], term: AffinityTerm) -> bool:
    return before.get(term.topology_key) != now.get(term.topology_key)


def _is_placed(pod: PodInfo) -> bool:
    return bool(pod.node_name or pod.pod.status.nominated_node_name)


def _required_terms(pod: PodInfo) -> tuple[Sequence[AffinityTerm], Sequence[AffinityTerm]]:
    """Affinity and anti-affinity."""
    affinity = pod.shape.affinity
    return ((), ()) if affinity is None else (affinity.required, affinity.required_anti)


def _matches_all(terms: Iterable[AffinityTerm], owner: PodInfo, pod: PodInfo) -> bool:
    """Whether there are terms and a pod satisfies them all.

    Hints cannot read labels of namespaces: namespace selectors are matched with empty labels.
    """
    selected = [pod_selector_of(term, owner.namespace) for term in terms]
    return bool(selected) and all(speaks_of(pods, pod, {}) for pods in selected)
