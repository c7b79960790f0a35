"""The law of pod classes: what is kept from earlier pods and snapshots never changes an answer.

Random histories of a cluster, with every in-tree plugin and random plugin arguments. Judged in
between, by one profile that keeps classes, by one that keeps none and whose plugins say nothing
beforehand, and by one that sees the cluster for the first time.
"""

from collections.abc import Sequence
from copy import copy
from math import inf
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.nodes import checked_node
from scheduler.api.objects import Namespace, Node, Pod
from scheduler.api.pods import PodInfo, PodKind, pod_info
from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.cache import Cache
from scheduler.kernel.framework.runtime import Framework, ProfilePlugins
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.offline.defaults import completed_pod
from tests.parity.generator.cluster import Cluster, new_namespaces, new_node, new_pod
from tests.parity.generator.draw import Draw
from tests.parity.generator.families import FAMILIES
from tests.parity.generator.feature import Feature

PROFILE = "default-scheduler"
STEPS = 300
SHAPES = 12
REBUILT_EVERY = 15
MOST_NOMINATED = 6


class History:
    """A cluster that goes its random way, and pods that are judged on it again and again."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(f"history:{seed}")
        self.features = FAMILIES["mixed"]()
        self.objects = Cluster(others=new_namespaces(self.draw))
        self.objects.nodes = [new_node(self.draw, f"n{i}") for i in range(12)]
        for feature in self.features:
            feature.shape_cluster(self.draw, self.objects)
        self.cache = Cache()
        self.namespaces: dict[str, dict[str, str]] = {}
        self.nominator = NominatedPods()
        self.ends: dict[PodKind, float] = {}
        """When pods would end; of those that are asked about."""
        self.nominator.end_if_started = lambda pod: self.ends.setdefault(
            pod.kind, self.draw.pick((10.0, 30.0, inf))
        )
        self.nominees: list[PodInfo] = []
        """Pods that were nominated to a node once."""
        self.assumed: dict[str, PodInfo] = {}
        self._serial = 0
        for _ in range(8):
            self.set_node()
        for raw in self.objects.others:
            if raw["kind"] == "Namespace":
                namespace = msgspec.convert(raw, Namespace).metadata
                self.set_namespace(namespace.name, namespace.labels)
        self.shapes = [self.new_shape() for _ in range(SHAPES)]

    def step(self) -> None:
        """One random event."""
        events = {
            self.add_pod: 10,
            self.assume_pod: 8,
            self.confirm_pod: 5,
            self.forget_pod: 2,
            self.remove_pod: 7,
            self.update_pod: 3,
            self.set_node: 4,
            self.remove_node: 1,
            self.nominate: 2,
            self.change_namespace: 1,
            self.change_shape: 2,
        }
        self.draw.choices(list(events), list(events.values()))[0]()

    # --- events -----------------------------------------------------------------------------------

    def set_node(self) -> None:
        raw = new_node(self.draw, f"n{self.draw.randint(0, 11)}")
        for feature in self.features:
            feature.shape_node(self.draw, raw)
        # An image has the size that the first node with it reported: that is history.
        for image in raw["status"].get("images", ()):
            image["sizeBytes"] = 300 * 2**20
        self.cache.set_node(checked_node(msgspec.convert(raw, Node)))

    def remove_node(self) -> None:
        self.cache.remove_node(f"n{self.draw.randint(0, 11)}")

    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.namespaces[name] = labels
        self.cache.set_namespace(name, labels)

    def change_namespace(self) -> None:
        name = self.draw.pick(sorted(self.namespaces))
        if self.draw.maybe(0.3):
            del self.namespaces[name]
            self.cache.remove_namespace(name)
            name = f"other-{self._serial}"
        self.set_namespace(name, self.draw.pick(({}, {"team": "a"}, {"env": "prod"})))

    def change_shape(self) -> None:
        self.shapes[self.draw.randint(0, SHAPES - 1)] = self.new_shape()

    def add_pod(self) -> None:
        self.cache.add_pod(self.pod_on_some_node())

    def assume_pod(self) -> None:
        pod = self.pod_on_some_node()
        self.cache.assume_pod(pod)
        self.assumed[pod.uid] = pod

    def confirm_pod(self) -> None:
        if self.assumed:
            _, pod = self.assumed.popitem()
            # The API server may know better where it is.
            self.cache.add_pod(pod if self.draw.maybe(0.8) else pod.on_node(self.some_node()))

    def forget_pod(self) -> None:
        if self.assumed:
            self.cache.forget_pod(self.assumed.popitem()[1])

    def remove_pod(self) -> None:
        if (pod := self.some_running_pod()) is not None:
            self.assumed.pop(pod.uid, None)
            self.cache.remove_pod(pod)

    def update_pod(self) -> None:
        """A pod is relabelled, resized or starts to be deleted."""
        if (pod := self.some_running_pod()) is None:
            return
        raw = msgspec.to_builtins(self.like(self.draw.pick(self.shapes), pod.uid).pod)
        raw["spec"]["nodeName"] = pod.node_name
        raw["metadata"]["namespace"] = pod.namespace
        if self.draw.maybe(0.3):
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.assumed.pop(pod.uid, None)
        self.cache.update_pod(pod_info(msgspec.convert(raw, Pod)))

    def nominate(self) -> None:
        pod = self.new_pod() if self.draw.maybe(0.5) else self.like(self.draw.pick(self.shapes))
        needed_at = float(self.draw.pick((0, 0, 20, 40)))
        self.nominator.nominate(pod, self.some_node(), needed_at)
        self.nominees.append(pod)
        if len(self.nominator) > MOST_NOMINATED:
            oldest = next(iter(self.nominator))
            for other in list(self.nominator.nominated_pods_for_node(oldest)):
                self.nominator.delete_nominated_pod_if_exists(other.uid)

    # --- objects ----------------------------------------------------------------------------------

    def new_shape(self) -> PodInfo:
        """A pod unlike the others, or one that differs from some of them in one aspect only."""
        if self.draw.maybe(0.3):
            return self.new_pod()
        aspect = self.draw.pick(self.features)
        return self.new_pod([aspect] * 3)

    def new_pod(self, features: Sequence[Feature] | None = None) -> PodInfo:
        self._serial += 1
        raw = new_pod(self.draw, f"pod-{self._serial}")
        for feature in self.features if features is None else features:
            feature.shape_pod(self.draw, raw, self.objects)
        raw["spec"].pop("nodeName", None)
        return pod_info(msgspec.convert(completed_pod(raw), Pod))

    def like(self, pod: PodInfo, uid: str = "") -> PodInfo:
        """Another pod of the same shape and labels."""
        self._serial += 1
        raw: dict[str, Any] = msgspec.to_builtins(pod.pod)
        raw["metadata"]["uid"] = uid or f"uid-{self._serial}"
        raw["metadata"]["name"] = f"pod-{self._serial}"
        return pod_info(msgspec.convert(raw, Pod))

    def pod_on_some_node(self) -> PodInfo:
        return self.like(self.draw.pick(self.shapes)).on_node(self.some_node())

    def waiting_pod(self) -> PodInfo:
        """A pod that is asked about: another one of its shape, or one with a place of its own."""
        if self.nominees and self.draw.maybe(0.2):
            return self.draw.pick(self.nominees)
        return self.like(self.draw.pick(self.shapes))

    def some_node(self) -> str:
        return f"n{self.draw.randint(0, 12)}"

    def some_running_pod(self) -> PodInfo | None:
        pods = list(self.cache.pods.values())
        return self.draw.pick(pods) if pods else None

    def fresh_snapshot(self) -> Snapshot:
        """The cluster as somebody sees it who was not there before."""
        cache, snapshot = Cache(), Snapshot()
        for name, labels in self.namespaces.items():
            cache.set_namespace(name, labels)
        for info in self.cache.nodes.values():
            if info.node is not None:
                cache.set_node(info.node)
        for pod in self.cache.pods.values():
            cache.add_pod(pod)
        cache.update_snapshot(snapshot)
        return snapshot


def judgement(
    framework: Framework, pod: PodInfo, snapshot: Snapshot, nominator: NominatedPods
) -> dict[str, Any]:
    """Everything a framework says about a pod, in terms that do not depend on row numbers."""
    found = framework.filtering.find_nodes_that_fit(pod, snapshot, nominator)
    diagnosis = found.diagnosis(snapshot)
    answer: dict[str, Any] = {
        "pre_filter": found.pre_filter,
        "message": diagnosis.message(),
        "rejecting": diagnosis.unschedulable_plugins,
    }
    if found.verdicts is None:
        return answer
    rows = found.feasible_rows()
    names = snapshot.table.names
    feasible = {names[row] for row in rows.tolist()}
    answer["statuses"] = {n: diagnosis.status_of(n) for n in names if n and n not in feasible}
    totals = framework.scoring.totals(found, pod, snapshot, rows)
    answer["totals"] = dict(zip([names[row] for row in rows], totals.tolist(), strict=True))
    # The shortcut must name the nodes that the long way names.
    best = framework.scoring.best_nodes(found, pod, snapshot)
    longway = rows[totals == totals.max(initial=-1.0)]
    assert (best.rows.tolist(), best.feasible) == (longway.tolist(), len(rows))
    table = framework.scoring.score_table(found, pod, snapshot, rows)
    sums = sum((c * w for _, w, c in table), np.zeros(len(rows)))
    assert sums.tolist() == totals.tolist()
    return answer


class Plodding(Shortcuts):
    """Says nothing beforehand."""

    # Said again here, for the plugin it is put before has `Shortcuts` among its bases, too.
    NEEDS = Shortcuts.NEEDS
    COSTS_BY_ROW = Shortcuts.COSTS_BY_ROW
    ONLY_BINDS = Shortcuts.ONLY_BINDS
    skips_all = Shortcuts.skips_all
    skips_score = Shortcuts.skips_score
    score_by_domain = Shortcuts.score_by_domain


def without_shortcuts(framework: Framework) -> Framework:
    """The same profile, each of whose plugins is asked whatever there is to ask; nothing kept."""

    def plodding(name: str) -> Any:
        plugin = copy(framework.plugins.by_name[name])
        if Shortcuts in type(plugin).__mro__:
            plugin.__class__ = type(name, (Plodding, type(plugin)), {})
        return plugin

    plugins = framework.plugins
    every = ProfilePlugins(plugins._enabled, plodding, plugins.calls, trusted=plugins._trusted)
    return Framework(every, class_cache_bytes=0)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_kept_changes_an_answer(seed: int) -> None:
    """Verdicts, messages and totals of a profile with classes equal those of one without."""
    history = History(seed)
    config = load_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **history.objects.case().get("config", {}),
        },
        default_scheduler_name=PROFILE,
    )

    def build() -> Framework:
        return FrameworkBuilder(lambda: 0.0).build(config)[PROFILE]

    keeping, forgetting = build(), without_shortcuts(build())
    snapshot = Snapshot()

    for i in range(STEPS):
        history.step()
        # Now and then several changes meet one snapshot, or none does.
        if history.draw.maybe(0.4):
            continue
        history.cache.update_snapshot(snapshot)
        for _ in range(history.draw.randint(1, 2)):
            pod = history.waiting_pod()
            kept = judgement(keeping, pod, snapshot, history.nominator)

            assert kept == judgement(forgetting, pod, snapshot, history.nominator)
            if i % REBUILT_EVERY == 0:
                fresh = history.fresh_snapshot()
                assert kept == judgement(build(), pod, fresh, history.nominator)
    assert keeping.classes.hits > keeping.classes.misses
    assert forgetting.classes.hits == 0
