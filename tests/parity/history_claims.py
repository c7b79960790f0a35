"""Histories with resource claims: devices come and go, and pods wait for them and get them.

The API server answers PreBind's writes within the attempt, or in a later step; it may refuse one.
The claims that the scheduler has written are shown later. A controller makes the claims of
templates and frees those of pods that are gone. Besides what histories compare: the devices in use,
and what is written to the status of claims. These differences are meant, and are kept out:

- The deletion of a claim wakes pods, and so do devices that were taken in memory only: not here.
- The reservations of a pod that is deleted, or bound by others, are left to the controller: the
  judge is told that it cannot remove them.
- A pod is nominated while PreBind writes its claims: not by the judge, see `e2e/oracle`.
- A node whose PreBind is under way is deleted: no such node is.
- A pod whose PreBind is under way is deleted or bound by others: no such pod is.
- A pod whose PreBind is under way is preempted: a history ends before.
- Any of several claims is deallocated if no node fits: a history ends before.
- A claim is deleted, or gets other devices, while it is in flight: no such thing happens to it.
- A pod with a nomination was gated when it came: a history ends before it is tried.
- A watch that leaves versions out hides a deallocation from the judge: it shows them all.
- What PreBind reads counts before the watch shows it: the watch has shown all before it writes.
- A deallocation has a conflict: a history ends before.
"""

import copy
import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import msgspec
from typing_extensions import override

from apistub.http.patches import merge_strategically
from scheduler.api.quantity import parse
from scheduler.errors import RequestError
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.events import ObjectRead, PreBound
from scheduler.kernel.engine.instructions import Cancel, Instruction, RunPreBind, Write
from scheduler.kernel.engine.scheduling_failure import DEVICES_FREED
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.history_claims import (
    CLASSES,
    DRIVER,
    FINALIZER,
    MODELS,
    device_class,
    new_claim,
    new_device,
)
from tests.parity.history_steps import STEPS, History
from tests.parity.living import PLURAL, REFUSED
from tests.parity.plugin_writes import Pause, PluginWrites, refusal
from tests.parity.world import decoded, is_leaving, key_of

_CLAIM: Final = "ResourceClaim"
_EPOCH: Final = 1_767_323_045.0
"""The time that the scheduler writes into allocations."""
_TAINTS: Final = [{"key": "example.com/degraded", "effect": "NoSchedule"}]


def live_through_claims(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with claims; see `history_steps.live_through`."""
    return HistoryWithClaims(case, seed).lived(steps)


class HistoryWithClaims(PluginWrites, History):
    """A life in which pods have claims, with an API server that answers writes to them."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        draw = Draw(f"writes to claims:{seed}")
        self._refuses_writes = draw.pick((0.0, 0.05, 0.3))
        self._waits = draw.pick((0.0, 0.3, 0.8))
        """How often PreBind writes claims in a later step."""
        self._to_write: dict[str, tuple[int, Generator[None, None, Any]]] = {}
        """By pod, the attempt and PreBind of those that wait for that step."""
        self._writes_now = False
        self._owed_claims: dict[str, None] = {}
        """Claims whose newest version the scheduler has not seen."""
        self._answered: dict[str, list[Object | None]] = {}
        self._written: dict[str, list[Object]] = {}
        self._ends_at: int | None = None
        """The step that is not taken, as the sides differ there as meant."""
        services = self.profiles._builder.services
        services.api, services.epoch = self, _EPOCH

    @override
    def lived(self, steps: int = STEPS) -> Object:
        self.begin()
        while len(self.steps) < steps + 40 and self._ends_at is None:
            self.go_on()
        return {"steps": self.steps[: self._ends_at], "answers": self.answers[: self._ends_at]}

    @override
    def begin(self) -> None:
        for kind in ("DeviceClass", "ResourceSlice", _CLAIM):
            for _ in range(len(self.world.to_come[kind])):
                if self.draw.maybe(0.85):
                    self.create(kind)
                else:
                    self.world.to_come[kind].append(self.world.to_come[kind].pop(0))
        super().begin()

    @override
    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        waiting = [(10.0, self._write_some)] if self._to_write else []
        return [*super().ways(), *waiting]

    @override
    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            *super().changes(),
            (4, lambda: self.create(_CLAIM)),
            (1, lambda: self.create("ResourceSlice")),
            (1, lambda: self.create("DeviceClass")),
            (10, self._control),
            (3, self._change_claim),
            (1.5, self._delete_claim),
            (3, self._change_slice),
            (0.7, lambda: self._replace("ResourceSlice")),
            (0.7, self._change_class),
            (0.2, lambda: self._replace("DeviceClass")),
        ]

    @override
    def wakes(self, event: ClusterEvent, old: Any = None, new: Any = None) -> bool:
        is_claim = event.resource is EventResource.RESOURCE_CLAIM
        if is_claim and (event.action is ActionType.DELETE or old is DEVICES_FREED[1]):
            return False
        return super().wakes(event, old, new)

    @override
    def must_stay(self, raw: Object) -> bool:
        name = key_of(raw)
        attempts = self.engine.attempts
        nodes = {attempts[number].pod.node_name for number, _ in self._to_write.values()}
        return name in self._to_write or (raw["kind"] == "Node" and name in nodes)

    @override
    def show_owed(self) -> None:
        if self._owed_claims and self.draw.maybe(0.5):
            self.show(self.world.held[_CLAIM][self.draw.pick(sorted(self._owed_claims))])
        else:
            super().show_owed()

    @override
    def show(self, raw: Object) -> None:
        if raw["kind"] == _CLAIM:
            self._owed_claims.pop(key_of(raw), None)
        super().show(raw)

    @property
    def _catalog(self) -> ClaimCatalog:
        return self.engine.core.states.shared(ClaimCatalog, "")

    # --- changes of devices and claims ------------------------------------------------------------

    def _is_in_flight_claim(self, raw: Object) -> bool:
        return raw["metadata"]["uid"] in self._catalog.in_flight

    def _some(self, kind: str) -> Object | None:
        return self.any(list(self.world.held[kind].values()))

    def _set(self, raw: Object) -> None:
        if key_of(raw) in self._owed_claims:
            self.show(self.world.held[_CLAIM][key_of(raw)])
        self.show(self.world.write(raw))

    def _replace(self, kind: str) -> None:
        raw = self._some(kind)
        if raw is not None:
            self._remove(raw)

    def _remove(self, raw: Object) -> None:
        """Delete an object, which may come again as another."""
        if key_of(raw) in self._owed_claims:
            self.show(self.world.held[_CLAIM][key_of(raw)])
        self.delete(raw)
        meta = {"name": raw["metadata"]["name"], "uid": raw["metadata"]["uid"] + "+"}
        if raw["kind"] == _CLAIM:
            meta["namespace"] = raw["metadata"]["namespace"]
        if "ownerReferences" not in raw["metadata"]:
            again = {**raw, "metadata": meta, "status": {}}
            self.world.to_come[raw["kind"]].append(again)

    def _delete_claim(self) -> None:
        raw = self._some(_CLAIM)
        if raw is None or self._is_in_flight_claim(raw):
            return
        if "allocation" not in raw.get("status", {}) or self.draw.maybe(0.1):
            self._remove(raw)
        elif not is_leaving(raw):
            raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
            self._set(raw)

    def _control(self) -> None:
        """The controller makes a claim, or frees one that no pod uses, or deletes it at last."""
        if self.draw.maybe(0.4) and self._make_claim():
            return
        uids = {pod["metadata"]["uid"] for pod in self.world.held["Pod"].values()}
        for raw in self.draw.sample(
            held := sorted(self.world.held[_CLAIM].values(), key=key_of), len(held)
        ):
            status = raw.get("status", {})
            users = status.get("reservedFor", [])
            left = [user for user in users if user["uid"] in uids]
            owners = [owner["uid"] for owner in raw["metadata"].get("ownerReferences", ())]
            if len(left) < len(users):
                self._free(copy.deepcopy(raw), left)
                return
            is_orphan = not users and any(owner not in uids for owner in owners)
            if not self._is_in_flight_claim(raw) and (
                is_orphan or (is_leaving(raw) and "allocation" not in status)
            ):
                self._remove(copy.deepcopy(raw))
                return

    def _free(self, raw: Object, left: list[Object]) -> None:
        status = {**raw["status"], "reservedFor": left}
        if not left:
            for field in ("reservedFor", "allocation", "devices"):
                status.pop(field, None)
            raw["metadata"].pop("finalizers", None)
        raw["status"] = status
        self._set(raw)

    def _make_claim(self) -> bool:
        for raw in self.world.pods(assigned=False):
            pod = copy.deepcopy(raw)
            status, meta = pod["status"], pod["metadata"]
            known = [each["name"] for each in status.get("resourceClaimStatuses", ())]
            for entry in pod["spec"].get("resourceClaims", ()):
                if "resourceClaimTemplateName" not in entry or entry["name"] in known:
                    continue
                name = f"{meta['name']}-{entry['name']}-claim"
                names = pod["status"].setdefault("resourceClaimStatuses", [])
                names.append({"name": entry["name"], "resourceClaimName": name})
                if self.draw.maybe(0.05):
                    del names[-1]["resourceClaimName"]
                elif f"{meta['namespace']}/{name}" not in self.world.held[_CLAIM]:
                    self._set(self._claim_of(pod, name))
                self._set(pod)
                return True
        return False

    def _claim_of(self, pod: Object, name: str) -> Object:
        meta = pod["metadata"]
        claim = self._new_claim(name, meta["namespace"])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        claim["metadata"]["uid"] = f"claim of {meta['uid']} {name} {len(self.steps)}"
        claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        return claim

    def _new_claim(self, name: str, namespace: str) -> Object:
        return new_claim(self.draw, name, namespace)

    def _change_claim(self) -> None:
        raw = self._some(_CLAIM)
        if raw is None:
            return
        status = raw.setdefault("status", {})
        if "allocation" in status and self.draw.maybe(0.5):
            if "reservedFor" in status and self.draw.maybe(0.5):
                self._free(raw, [])
                return
            other = {"resource": "pods", "name": "other", "uid": f"other-{len(self.steps)}"}
            status.setdefault("reservedFor", []).append(other)
        elif "allocation" not in status and self.draw.maybe(0.6) and not is_leaving(raw):
            if not self._is_in_flight_claim(raw):
                self._allocate(raw)
        else:
            raw["metadata"].setdefault("labels", {})["changed"] = str(self.units)
        self._set(raw)

    def _allocate(self, raw: Object) -> None:
        """Another scheduler gives a device to a claim."""
        free = [each for each in self._published() if ".".join(each) not in self._in_use()]
        if not free:
            return
        pool, device = self.draw.pick(free)
        result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
        allocation: Object = {"devices": {"results": [result]}}
        nodes = sorted(self.world.held["Node"])
        if nodes and self.draw.maybe(0.8):
            name = pool if pool in nodes else self.draw.pick(nodes)
            field = {"key": "metadata.name", "operator": "In", "values": [name]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        raw["status"]["allocation"] = allocation
        raw["metadata"]["finalizers"] = [FINALIZER]

    def _published(self) -> list[tuple[str, str]]:
        specs = [each["spec"] for each in self.world.held["ResourceSlice"].values()]
        return sorted((s["pool"]["name"], d["name"]) for s in specs for d in s.get("devices", ()))

    def _in_use(self) -> set[str]:
        return {name.removeprefix(f"{DRIVER}/").replace("/", ".") for name in self._devices()}

    def _change_slice(self) -> None:
        raw = self._some("ResourceSlice")
        if raw is None:
            return
        draw, spec = self.draw, raw["spec"]
        devices = spec.setdefault("devices", [])
        names = [each["name"] for each in devices]
        if draw.maybe(0.4):
            new = next(f"d{number}" for number in range(99) if f"d{number}" not in names)
            devices.append(new_device(draw, new))
        elif devices and draw.maybe(0.4):
            devices.remove(draw.pick(devices))
        elif devices:
            device = draw.pick(devices)
            if device.pop("taints", None) is None and draw.maybe(0.5):
                device["taints"] = copy.deepcopy(_TAINTS)
            else:
                device["attributes"] = {"model": {"string": draw.pick(MODELS)}}
        if draw.maybe(0.5):
            spec["pool"]["generation"] += 1
        self._set(raw)

    def _change_class(self) -> None:
        raw = self._some("DeviceClass")
        if raw is not None:
            expression = self.draw.pick(list(CLASSES.values()))
            raw["spec"] = device_class("", expression)["spec"]
            self._set(raw)

    # --- what the scheduler writes ----------------------------------------------------------------

    def _write_some(self) -> None:
        if self._to_write:
            self._write_claims(self.draw.pick(sorted(self._to_write)))

    def _write_claims(self, key: str) -> None:
        for owed in sorted(self._owed_claims):
            self.show(self.world.held[_CLAIM][owed])

        def write() -> None:
            self._writes_now = True
            self._go_on_with(key)
            self._writes_now = False

        self.step({"do": "write", "pod": key}, write)

    def _go_on_with(self, key: str) -> None:
        attempt, work = self._to_write[key]
        try:
            work.send(None)
        except StopIteration as end:
            del self._to_write[key]
            status = end.value
            if self.tried is None:
                self.tried = {"pod": key}
            self.handle(PreBound(attempt, "" if status.is_success else status.message))

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, RunPreBind):
            self._pre_bind(instruction.attempt)
        elif isinstance(instruction, Write):
            self._send(instruction)
        elif not isinstance(instruction, Cancel):
            super()._carry_out(instruction)
        elif any(instruction.attempt == attempt for attempt, _ in self._to_write.values()):
            self._end_before()

    def _pre_bind(self, number: int) -> None:
        attempt = self.engine.attempts[number]
        key = attempt.pod.key
        work: Any = attempt.framework.run_pre_bind_plugins(attempt.cycle_state, attempt.pod)
        self._to_write[key] = number, work
        self._go_on_with(key)
        if key in self._to_write and not self.draw.maybe(self._waits):
            self._after.append(lambda: self._write_claims(key))

    def _send(self, write: Write) -> None:
        """Carry out a write of PostFilter or Unreserve; its answer comes with the watch."""
        pod = next(
            (
                key
                for key, raw in self.world.held["Pod"].items()
                if raw["metadata"]["uid"] == write.uid
            ),
            None,
        )
        if pod is not None and self._choices(self.world.held["Pod"][pod]) > 1:
            self._end_before()
        try:
            self._written_claim(write.path, write.body)
        except RequestError:
            self._end_before()

    def _end_before(self) -> None:
        if self._ends_at is None:
            self._ends_at = len(self.steps) - 1

    def _choices(self, pod: Object) -> int:
        """How many claims of a pod might be deallocated for it."""
        known = {
            e["name"]: e.get("resourceClaimName")
            for e in pod["status"].get("resourceClaimStatuses", ())
        }
        count = 0
        for entry in pod["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimName", known.get(entry["name"]))
            raw = self.world.held[_CLAIM].get(f"{pod['metadata']['namespace']}/{name}", {})
            status = raw.get("status", {})
            users = {user["uid"] for user in status.get("reservedFor", ())}
            count += "allocation" in status and users <= {pod["metadata"]["uid"]}
        return count

    def _written_claim(self, path: str, body: Any) -> Object:
        """Write to a claim as the API server does."""
        body = json.loads(msgspec.json.encode(body))
        parts = path.removesuffix("/status").split("/")
        key = f"{parts[-3]}/{parts[-1]}"
        before = self.world.held[_CLAIM].get(key)
        if before is None:
            raise refusal(404, "not found")
        meta = body.pop("metadata", {})
        expected = {name: meta[name] for name in ("uid", "resourceVersion") if name in meta}
        if any(before["metadata"][name] != value for name, value in expected.items()):
            raise refusal(409, "it has changed")
        raw = copy.deepcopy(before)
        if not path.endswith("/status"):
            raw["metadata"]["finalizers"] = meta["finalizers"]
            return self._owe(raw)
        raw["status"] = merge_strategically(raw.get("status", {}), body["status"])
        status = raw["status"]
        if not status.get("reservedFor"):
            status.pop("reservedFor", None)
        if raw == before:
            return before
        is_reserving = len(status.get("reservedFor", ())) > len(
            before.get("status", {}).get("reservedFor", ())
        )
        if is_reserving and ("allocation" not in status or is_leaving(raw)):
            raise refusal(422, "invalid")
        self._written.setdefault(key, []).append(_summary(status))
        if is_reserving and self.draw.maybe(self._refuses_writes):
            self._answered.setdefault(key, []).append(None)
            raise refusal(403, REFUSED)
        raw = self._owe(raw)
        self._answered.setdefault(key, []).append(copy.deepcopy(raw))
        return raw

    def _owe(self, raw: Object) -> Object:
        raw = self.world.write(raw)
        self._owed_claims[key_of(raw)] = None
        return raw

    @override
    def written(self, step: Object) -> Object:
        answered, self._answered = self._answered, {}
        noted, self._written = self._written, {}
        if answered:
            step["wrote"] = answered
        if any(map(self._is_nominated_in_vain, self.engine.core.queue.rows())):
            self._end_before()
        found = {"devices": self._devices(), "written": noted}
        return {name: value for name, value in found.items() if value}

    def _is_nominated_in_vain(self, row: Mapping[str, object]) -> bool:
        """Whether a pod that waits has a nomination that does not count."""
        queue, uid = self.engine.core.queue, str(row["uid"])
        pod, place = queue.get(uid), queue.place_of(uid)
        if pod is None or place is None or place.name == "gated":
            return False
        return bool(pod.pod.status.nominated_node_name) and queue.nominator.nodes.get(uid) is None

    def _nomination_ends_later(self, row: Mapping[str, object]) -> bool:
        """Whether the watch shows the end of a pod's nomination after the step."""
        return row["queue"] == "inFlight" or row["pod"] == self._renominated

    def _devices(self) -> list[str]:
        given = self._catalog.devices.usage.allocations.values()
        return sorted({each.id.text for one in given for each in one.devices.results})

    # --- the API server for PreBind; see `framework.services.Api` ---------------------------------

    async def request(self, method: str, path: str, body: object = None) -> Any:
        if not self._writes_now:
            await Pause()
        if method == "GET":
            key = "{0}/{2}".format(*path.split("/")[-3:])
            raw = self.world.held[_CLAIM].get(key)
            if raw is None:
                raise refusal(404, "not found")
        else:
            raw = self._written_claim(path, body)
        raw = copy.deepcopy(raw)
        self.handle(ObjectRead(PLURAL[_CLAIM], decoded(raw)))
        return raw

    @staticmethod
    async def until(holds: Callable[[], bool], *_: object) -> bool:
        return holds()


def _summary(status: Object) -> Object:
    allocation, users = status.get("allocation"), status.get("reservedFor", ())
    devices = None
    if allocation is not None:
        names = ("request", "driver", "pool", "device", "adminAccess")
        results = allocation["devices"]["results"]
        devices = [{name: each[name] for name in names if each.get(name)} for each in results]
        for noted, each in zip(devices, results, strict=True):
            consumed = {name: str(parse(x)) for name, x in each.get("consumedCapacity", {}).items()}
            if consumed:
                noted["consumedCapacity"] = consumed
    found = {"devices": devices, "reservedFor": [user["uid"] for user in users]}
    if allocation is not None and "nodeSelector" in allocation:
        found["nodeSelector"] = allocation["nodeSelector"]
    if allocation is not None and allocation["devices"].get("config"):
        config = allocation["devices"]["config"]
        found["config"] = [{key: some for key, some in each.items() if some} for each in config]
    return found
