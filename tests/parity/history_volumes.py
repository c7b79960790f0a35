"""Histories with volumes: claims, volumes and room come, change and go, and pods wait for them.

A controller binds and provisions volumes, or gives up. PreBind writes volumes and claims in a
later step, and looks in further ones whether they are bound, where kube-scheduler looks once a
second. Besides what histories compare: what is written to volumes and claims. These differences are
meant, and are kept out:

- Volumes that were taken in memory only, and are given back, wake pods: not here.
- A claim is recreated or a volume given to another claim while PreBind waits for them: no such
  thing happens to them.
- A pod whose PreBind is under way is deleted gracefully or bound by others; the pod or the node
  goes before PreBind has written: no such thing happens to them. A history ends before such a pod
  is preempted.
- A pod with a disk or another pod's claim that no driver knows is bound by others: no pod with
  ephemeral volumes or disks is.
- What the API server answers to PreBind counts before the watch shows it: that shows it at once, or
  the answer does not count.
- A claim with a selected node keeps it, for a new attempt, although the watch does not show it and
  a further write has failed: the watch shows all if a write is refused.
- A volume that was taken by a pod of one profile is free for those of others: there is one profile.
"""

import copy
import json
from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec
from typing_extensions import override

from apistub.http.patches import merge_strategically
from scheduler.kernel.engine.attempt import AttemptState
from scheduler.kernel.engine.events import ObjectRead, PreBound
from scheduler.kernel.engine.instructions import Cancel, Instruction, RunPreBind
from scheduler.kernel.engine.scheduling_failure import VOLUMES_FREED
from scheduler.kernel.framework.events import ClusterEvent
from scheduler.kernel.framework.services import Wake
from scheduler.kernel.plugins.volume_binding import _ATTEMPT
from tests.parity.generator.draw import HOSTNAME, NODE_LABELS, ZONE, Draw, Object
from tests.parity.generator.storage import DRIVER, EBS, EBS_DRIVER, drop_odd_zones
from tests.parity.generator.storage_changes import STORAGE_KINDS, change_storage
from tests.parity.history_steps import STEPS, History
from tests.parity.living import PLURAL, REFUSED
from tests.parity.plugin_writes import Pause, PluginWrites, refusal, until_it_holds
from tests.parity.world import decoded, is_leaving, key_of

_CLAIM: Final = "PersistentVolumeClaim"
_VOLUME: Final = "PersistentVolume"
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_NOW: Final = "2026-01-02T03:04:05Z"
_PROVISIONERS: Final = (DRIVER, EBS_DRIVER)


def live_through_volumes(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with volumes; see `history_steps.live_through`."""
    return HistoryWithVolumes(case, seed).lived(steps)


class HistoryWithVolumes(PluginWrites, History):
    """A life in which pods have volumes, with an API server that answers writes to them."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        draw = Draw(f"writes to volumes:{seed}")
        self._refuses_writes = draw.pick((0.0, 0.1, 0.4))
        self._reads_answers = draw.maybe(0.5)
        """Whether what is written counts before the watch shows it, which is at once then."""
        self._diligence = draw.pick((6, 15, 40))
        """How often the controller does something."""
        self._waiting: dict[str, tuple[int, Generator[None, None, Any]]] = {}
        """By pod, the attempt and PreBind of those that wait for their volumes."""
        self._woken: dict[str, bool] = {}
        """By pod, whether what it waits for has changed since it was looked at."""
        self._looking = ""
        self._owed_volumes: dict[str, str] = {}
        """Volumes and claims whose newest version the scheduler has not seen, with their kind."""
        self._answered: dict[str, list[Object | None]] = {}
        self._written: dict[str, list[Object]] = {}
        self._count = 0
        self._ends_at: int | None = None
        """The step that is not taken, as the sides differ there as meant."""
        self.profiles._builder.services.api = self

    @override
    def lived(self, steps: int = STEPS) -> Object:
        self.begin()
        while len(self.steps) < steps + 40 and self._ends_at is None:
            self.go_on()
        return {"steps": self.steps[: self._ends_at], "answers": self.answers[: self._ends_at]}

    @override
    def begin(self) -> None:
        for kind in STORAGE_KINDS:
            for _ in range(len(self.world.to_come[kind])):
                if self.draw.maybe(0.8):
                    self.create(kind)
                else:
                    self.world.to_come[kind].append(self.world.to_come[kind].pop(0))
        super().begin()

    @override
    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        waiting = [(20.0, self._look_at_some), (5.0, self._disturb)] if self._waiting else []
        return [*super().ways(), *waiting]

    @override
    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            *super().changes(),
            (8, lambda: self.create(self.draw.pick((_CLAIM, _CLAIM, _VOLUME)))),
            (3, lambda: self.create(self.draw.pick(STORAGE_KINDS))),
            (self._diligence, self._control),
            (6, self._change_some),
            (2, self._remove_some),
        ]

    @override
    def wakes(self, event: ClusterEvent, old: Any = None, new: Any = None) -> bool:
        return old is not VOLUMES_FREED[1] and super().wakes(event, old, new)

    @override
    def _end_pending(self) -> None:
        """End a pod without a node; one that waits for volumes that it has written goes at once."""
        ready = sorted(set(self._waiting) & set(self._woken))
        if ready and self.during is None and self.draw.maybe(0.7):
            self.delete(copy.deepcopy(self.world.held["Pod"][self.draw.pick(ready)]))
        else:
            super()._end_pending()

    @override
    def must_stay(self, raw: Object) -> bool:
        return super().must_stay(raw) or key_of(raw) in self._waiting

    def _waiting_for(self, node: str) -> list[str]:
        """The pods on a node that wait for their volumes."""
        attempts = self.engine.attempts
        return [
            key
            for key, (number, _) in self._waiting.items()
            if attempts[number].pod.node_name == node
        ]

    @override
    def _delete_node(self) -> None:
        """Delete a node; a pod that waits there for volumes that it has written fails."""
        raw = self.any(list(self.world.held["Node"].values()))
        if raw is None:
            return
        there = self._waiting_for(key_of(raw))
        if len(there) == 1 and self.during is None:
            if there[0] not in self._woken:
                return
        elif there:
            return
        self.delete(raw)
        again = copy.deepcopy(raw)
        again["metadata"]["uid"] += "+"
        self.world.to_come["Node"].append(again)

    @override
    def show_owed(self) -> None:
        if self._owed_volumes and self.draw.maybe(0.6):
            self._show_volume(self.draw.pick(sorted(self._owed_volumes)))
        else:
            super().show_owed()

    def _show_volume(self, key: str) -> None:
        self.show(self.world.held[self._owed_volumes[key]][key])

    def _show_volumes(self) -> None:
        for key in sorted(self._owed_volumes):
            self._show_volume(key)

    @override
    def show(self, raw: Object) -> None:
        if raw["kind"] in (_CLAIM, _VOLUME):
            self._owed_volumes.pop(key_of(raw), None)
        super().show(raw)

    @override
    def _bind_by_others(self) -> None:
        before = self.draw.getstate()
        raw = self.any(self.world.pods(assigned=False))
        volumes = [] if raw is None else raw["spec"].get("volumes", [])
        if all("persistentVolumeClaim" in each or "configMap" in each for each in volumes):
            self.draw.setstate(before)
            super()._bind_by_others()

    # --- the controller and others ----------------------------------------------------------------

    def _held(self, kind: str) -> list[Object]:
        return list(self.world.held[kind].values())

    def _set(self, raw: Object) -> None:
        if key_of(raw) in self._owed_volumes:
            self._show_volume(key_of(raw))
        self.show(self.world.write(raw))

    def _control(self) -> None:
        """The controller binds a claim, makes a volume for one, or gives up; a kubelet lets go."""
        draw = self.draw
        held = sorted(self._held(_CLAIM), key=key_of)
        held = draw.sample(held, len(held))
        if draw.maybe(0.5):
            awaited = self._in_flight()
            held.sort(key=lambda claim: key_of(claim) not in awaited)
        for each in held:
            claim = copy.deepcopy(each)
            meta, spec = claim["metadata"], claim["spec"]
            if is_leaving(claim):
                if not self._is_used(claim):
                    self._remove(claim)
                    return
            elif _COMPLETED in meta.get("annotations", {}):
                if not self._volume_of(claim) and claim["status"]["phase"] == "Bound":
                    claim["status"]["phase"] = "Lost"
                    self._set(claim)
                    return
            elif (volume := self._volume_of(claim)) is not None:
                decided = self._decided().get(key_of(claim), volume["metadata"]["name"])
                if volume["metadata"]["name"] != decided:
                    # PreBind waits for another one.
                    continue
                self._complete(claim, volume)
                return
            elif spec.get("volumeName"):
                continue
            elif self._is_provisioned(claim):
                self._provide(claim)
                return
        self._make_ephemeral()

    def _is_used(self, claim: Object) -> bool:
        name, space = claim["metadata"]["name"], claim["metadata"]["namespace"]
        return key_of(claim) in self._in_flight() or any(
            pod["metadata"]["namespace"] == space and name in json.dumps(pod["spec"])
            for pod in self.world.pods(assigned=True)
        )

    def _volume_of(self, claim: Object) -> Object | None:
        """The volume that is reserved for a claim; the first one, if there are several."""
        found = self._volumes_of(claim)
        return copy.deepcopy(found[0]) if found else None

    def _volumes_of(self, claim: Object) -> list[Object]:
        meta = claim["metadata"]
        wanted = {name: meta[name] for name in ("namespace", "name", "uid")}
        return [
            raw
            for raw in self._held(_VOLUME)
            if wanted.items() <= raw["spec"].get("claimRef", {}).items()
        ]

    def _complete(self, claim: Object, volume: Object) -> None:
        if volume["status"].get("phase") != "Bound" and self.draw.maybe(0.5):
            volume["status"]["phase"] = "Bound"
            self._set(volume)
            return
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        if self.draw.maybe(0.8):
            claim["metadata"].setdefault("annotations", {})[_COMPLETED] = "yes"
            claim["status"]["phase"] = "Bound"
        self._set(claim)

    def _is_provisioned(self, claim: Object) -> bool:
        found = self.world.held["StorageClass"].get(claim["spec"].get("storageClassName", ""))
        if found is None or found["provisioner"] not in (DRIVER, EBS):
            return False
        waits = found["volumeBindingMode"] == "WaitForFirstConsumer"
        return not waits or _SELECTED in claim["metadata"].get("annotations", {})

    def _provide(self, claim: Object) -> None:
        """Make a volume for a claim, or give up."""
        draw, meta = self.draw, claim["metadata"]
        node = meta.get("annotations", {}).get(_SELECTED)
        if node is not None and (node not in self.world.held["Node"] or draw.maybe(0.25)):
            del meta["annotations"][_SELECTED]
            self._set(claim)
            return
        self._count += 1
        name = f"pvc-{self._count}"
        requirement = {"key": HOSTNAME, "operator": "In", "values": [node or "n0"]}
        labels = self.world.held["Node"].get(node, {"metadata": {}})["metadata"].get("labels", {})
        if draw.maybe(0.5) and ZONE in labels:
            requirement = {"key": ZONE, "operator": "In", "values": [labels[ZONE]]}
        source = {"driver": draw.pick(_PROVISIONERS), "volumeHandle": name}
        reference = {"kind": _CLAIM, "namespace": meta["namespace"], "name": meta["name"]}
        spec = {
            "capacity": {"storage": f"{self._count}{self._count:03}999M"},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"].get("storageClassName", ""),
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": source,
            "claimRef": {**reference, "uid": meta["uid"]},
        }
        if node is not None or draw.maybe(0.5):
            terms = [{"matchExpressions": [requirement]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        kind = {"apiVersion": "v1", "kind": _VOLUME}
        metadata = {"name": name, "uid": f"{_VOLUME}/{name}", "labels": {}}
        self.show(
            self.world.write(
                {**kind, "metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}
            )
        )

    def _make_ephemeral(self) -> None:
        """Make the claim of an ephemeral volume."""
        for raw in self.world.pods(assigned=False):
            meta = raw["metadata"]
            for volume in raw["spec"].get("volumes", ()):
                name = f"{meta['name']}-{volume['name']}"
                key = f"{meta['namespace']}/{name}"
                if "ephemeral" not in volume or key in self.world.held[_CLAIM]:
                    continue
                owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"]}
                metadata = {"name": name, "namespace": meta["namespace"]}
                metadata["uid"] = f"{_CLAIM}/{key}/{len(self.steps)}"
                metadata["ownerReferences"] = [{**owner, "uid": meta["uid"], "controller": True}]
                spec = copy.deepcopy(volume["ephemeral"]["volumeClaimTemplate"]["spec"])
                kind = {"apiVersion": "v1", "kind": _CLAIM}
                made = {**kind, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
                self.show(self.world.write(made))
                return

    def _in_flight(self, but: str = "") -> set[str]:
        """The volumes and claims of pods that wait for them, without one pod."""
        found: set[str] = set()
        for name in self._waiting.keys() - {but}:
            pod = self.world.held["Pod"][name]
            space = pod["metadata"]["namespace"]
            for volume in pod["spec"].get("volumes", ()):
                claim = volume.get("persistentVolumeClaim", {}).get("claimName")
                key = f"{space}/{claim or pod['metadata']['name'] + '-' + volume['name']}"
                held = self.world.held[_CLAIM].get(key)
                if held is not None:
                    found.add(key)
                    taken = self._volume_of(held)
                    found.add(held["spec"].get("volumeName", ""))
                    found.add(taken["metadata"]["name"] if taken else "")
        return found

    def _decided(self) -> dict[str, str]:
        """The volumes that PreBind writes or waits for, by claim."""
        attempts = [self.engine.attempts[number] for number, _ in self._waiting.values()]
        taken = [attempt.cycle_state.read(_ATTEMPT).assumed for attempt in attempts]
        return {each.claim.key: each.volume.key for one in taken if one for each in one.bindings}

    def _disturb(self) -> None:
        """Something happens that may end the wait of a pod, which looks at once."""
        ready = sorted(set(self._waiting) & set(self._woken))
        if not ready or self.during is not None:
            return
        key = self.draw.pick(ready)
        attempt = self.engine.attempts[self._waiting[key][0]]
        taken = attempt.cycle_state.read(_ATTEMPT).assumed
        claims = [each.key for each in taken.claims]
        volumes = [each.volume.key for each in taken.bindings]
        if self._in_flight(but=key).isdisjoint([*claims, *volumes]):
            way = self.draw.pick((self._disturb_node, self._disturb_claim, self._disturb_volume))
            way(attempt.pod.node_name, claims, volumes)
            if key in self._waiting:
                self._look_at(key)

    def _disturb_node(self, node: str, *_: object) -> None:
        kind = self.draw.pick(("Node", "Node", "CSINode"))
        raw = copy.deepcopy(self.world.held[kind].get(node))
        if raw is None:
            return
        if kind == "Node":
            self.label(raw, {HOSTNAME: (node, "other"), ZONE: NODE_LABELS[ZONE]})
            self.show(self.world.write(raw))
        else:
            change_storage(self.draw, raw, raw)
            self._set(raw)

    def _disturb_claim(self, node: str, claims: list[str], _: object) -> None:
        raw = copy.deepcopy(self.world.held[_CLAIM].get(self.draw.pick(claims)))
        if raw is None:
            return
        annotations = raw["metadata"].get("annotations", {})
        if self.draw.maybe(0.3):
            self._remove(raw)
        elif annotations.pop(_SELECTED, None) is not None and not raw["spec"].get("volumeName"):
            if self.draw.maybe(0.3):
                annotations["provisioner"] = f"gave up {node}"
            self._set(raw)

    def _disturb_volume(self, _: str, claims: list[str], volumes: list[str]) -> None:
        raw = copy.deepcopy(self.world.held[_VOLUME].get(self.draw.pick(volumes or claims)))
        if raw is None:
            return
        if self.draw.maybe(0.3):
            self._remove(raw)
        else:
            raw["spec"].pop("claimRef", None)
            raw["status"]["phase"] = "Available"
            self._set(raw)

    def _change_some(self) -> None:
        kind = self.draw.pick((*STORAGE_KINDS, _VOLUME, "CSINode", "CSIStorageCapacity"))
        raw, other = self.any(self._held(kind)), self.any(self._held(kind))
        if raw is None or other is None or self.must_stay(raw):
            return
        draw, annotations = self.draw, raw["metadata"].get("annotations", {})
        is_in_flight = key_of(raw) in self._in_flight()
        if kind == _CLAIM:
            if not is_in_flight and not raw["spec"].get("volumeName") and draw.maybe(0.5):
                if annotations.pop(_SELECTED, None) is None and draw.maybe(0.5):
                    nodes = sorted(self.world.held["Node"]) or ["gone"]
                    raw["metadata"]["annotations"] = {**annotations, _SELECTED: draw.pick(nodes)}
            else:
                raw["metadata"].setdefault("labels", {})["changed"] = str(self.units)
        elif kind == _VOLUME and not is_in_flight and draw.maybe(0.6):
            self._change_volume(raw)
        elif kind == "VolumeAttachment" or not is_in_flight:
            change_storage(draw, raw, other)
            if kind == _VOLUME:
                drop_odd_zones(raw)
        self._set(raw)

    def _change_volume(self, raw: Object) -> None:
        draw, spec = self.draw, raw["spec"]
        if spec.get("claimRef") and draw.maybe(0.5):
            del spec["claimRef"]
            raw["metadata"].get("annotations", {}).pop("pv.kubernetes.io/bound-by-controller", None)
            raw["status"]["phase"] = draw.pick(("Available", "Released"))
        elif not spec.get("claimRef"):
            raw["status"]["phase"] = draw.pick(("Available", "Available", "Failed", "Pending"))

    def _remove_some(self) -> None:
        kind = self.draw.pick((*STORAGE_KINDS, _CLAIM, _VOLUME))
        raw = self.any(self._held(kind))
        if raw is None or key_of(raw) in self._in_flight() or self.must_stay(raw):
            return
        if kind == _CLAIM and self._is_used(raw):
            if not is_leaving(raw):
                raw["metadata"]["deletionTimestamp"] = _NOW
                raw["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
                self._set(raw)
            return
        self._remove(raw)

    def _remove(self, raw: Object) -> None:
        """Delete an object, which may come again as another."""
        if key_of(raw) in self._owed_volumes:
            self._show_volume(key_of(raw))
        self.delete(raw)
        again, meta = copy.deepcopy(raw), raw["metadata"]
        again["metadata"] = {
            name: meta[name] for name in ("name", "namespace", "labels") if name in meta
        }
        again["metadata"]["uid"] = meta["uid"] + "+"
        if raw["kind"] == _CLAIM:
            again["spec"].pop("volumeName", None)
            again["status"] = {"phase": "Pending"}
        elif raw["kind"] == _VOLUME:
            again["spec"].pop("claimRef", None)
            again["status"] = {"phase": "Available"}
        if "ownerReferences" not in meta:
            self.world.to_come[raw["kind"]].append(again)

    # --- what the scheduler writes ----------------------------------------------------------------

    def _look_at_some(self) -> None:
        if self._waiting:
            self._look_at(self.draw.pick(sorted(self._waiting)))

    def _look_at(self, key: str) -> None:
        """PreBind writes the volumes of a pod, or looks whether they are bound."""
        do = "check" if key in self._woken else "write"

        def look() -> None:
            number = self._waiting[key][0]
            is_cancelled = self.engine.attempts[number].state is AttemptState.CANCELLED
            was_woken, self._looking = self._woken.pop(key, True), key
            self._go_on_with(key)
            if key in self._waiting:
                self._woken.setdefault(key, False)
            elif not was_woken:
                assert is_cancelled, f"{key} was not woken"

        self.step({"do": do, "pod": key}, look)

    def _go_on_with(self, key: str) -> None:
        attempt, work = self._waiting[key]
        if self.engine.attempts[attempt].state is AttemptState.CANCELLED:
            del self._waiting[key]
            work.close()
            self.handle(PreBound(attempt, "cancelled"))
            return
        try:
            work.send(None)
        except StopIteration as end:
            del self._waiting[key]
            if self.tried is None:
                self.tried = {"pod": key}
            status = end.value
            self.handle(PreBound(attempt, "" if status.is_success else status.message))

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, RunPreBind):
            self._pre_bind(instruction.attempt)
            return
        if not isinstance(instruction, Cancel):
            super()._carry_out(instruction)
            return
        for key, (number, _) in self._waiting.items():
            if instruction.attempt != number:
                continue
            node = self.engine.attempts[number].pod.node_name
            if key in self.world.held["Pod"] and node in self.world.held["Node"]:
                self._end_before()
            else:
                self._after.append(lambda: self._look_at(key))  # noqa: B023 - the last one
            return

    def _pre_bind(self, number: int) -> None:
        attempt = self.engine.attempts[number]
        key = attempt.pod.key

        async def later() -> Any:
            await Pause()
            return await attempt.framework.run_pre_bind_plugins(attempt.cycle_state, attempt.pod)

        work: Any = later()
        self._waiting[key] = number, work
        self._go_on_with(key)

    def _end_before(self) -> None:
        if self._ends_at is None:
            self._ends_at = len(self.steps) - 1

    def _written_object(self, path: str, body: Any) -> Object:
        """Write to a volume or claim as the API server does."""
        body = json.loads(msgspec.json.encode(body))
        parts = path.split("/")
        kind = _CLAIM if "namespaces" in parts else _VOLUME
        key = f"{parts[-3]}/{parts[-1]}" if kind == _CLAIM else parts[-1]
        before = self.world.held[kind].get(key)
        if before is None:
            raise refusal(404, "not found")
        meta = body["metadata"]
        expected = {name: meta.pop(name) for name in ("uid", "resourceVersion")}
        if any(before["metadata"][name] != value for name, value in expected.items()):
            changed = f'Operation cannot be fulfilled on {PLURAL[kind]} "{key}": it has changed'
            raise refusal(409, changed)
        raw = merge_strategically(copy.deepcopy(before), body)
        self._written.setdefault(key, []).append(_summary(raw))
        if self.draw.maybe(self._refuses_writes):
            self._answered.setdefault(key, []).append(None)
            self._after.append(self._show_volumes)
            raise refusal(403, REFUSED)
        raw = self.world.write(raw)
        self._owed_volumes[key] = kind
        self._answered.setdefault(key, []).append(copy.deepcopy(raw))
        return raw

    @override
    def written(self, step: Object) -> Object:
        answered, self._answered = self._answered, {}
        noted, self._written = self._written, {}
        if answered:
            step["wrote"] = answered
        return {"written": noted} if noted else {}

    # --- the API server for PreBind; see `framework.services.Api` ---------------------------------

    async def request(self, method: str, path: str, body: object = None) -> Any:
        assert method == "PATCH"
        raw = copy.deepcopy(self._written_object(path, body))
        if self._reads_answers:
            self.handle(ObjectRead(PLURAL[raw["kind"]], decoded(raw)))
            self._after.append(lambda: self._show_volume(key_of(raw)))
        return raw

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        del seconds
        self._woken[self._looking] = True
        return await until_it_holds(holds, listen, self._woken, self._looking)


def _summary(raw: Object) -> Object:
    if raw["kind"] == _CLAIM:
        return {"node": raw["metadata"]["annotations"][_SELECTED]}
    claim = raw["spec"]["claimRef"]
    return {"claim": f"{claim['namespace']}/{claim['name']} {claim['uid']}"}
