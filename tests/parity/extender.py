"""The extenders of generated cases: one HTTP server for both programs.

Its responses depend only on the extender's name, the pod and the node, so both programs get the
same responses in any order of calls. Extenders named `lenient...` are ignorable and fail more
often. Those named `steady...` never fail. Those named `odd...` answer in ways that the protocol
allows and few extenders use.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from zlib import crc32

from typing_extensions import override

Object = dict[str, Any]

PLACE: Final = "http://extender.example"
"""Placeholder for the server's address in cases, questions and recorded answers."""
STRICT: Final = ("strict-a", "strict-b")
LENIENT: Final = ("lenient-a", "lenient-b")
STEADY: Final = ("steady-a", "steady-b")
ODD: Final = ("odd-a", "odd-b")

_FAILS: Final = 500
_OK: Final = 200


def filtered(name: str, body: Object) -> Object | None:
    """Accepts most nodes, and rejects the others in four ways; None is a failure."""
    pod = _pod_of(body)
    mood = _number(name, pod, "filter") % 24
    if name in STEADY:
        mood = max(mood, 2)
    if mood == 0:
        return None
    if mood == 1:
        return {"Error": f"{name} cannot say"}
    passed: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for node in _nodes_of(body):
        number = _number(name, pod, node) % 16
        if number in (0, 1, 2, 4):
            failed[node] = f"{name} refuses {number}"
        if number in (3, 4):
            unresolvable[node] = f"{name} never takes {number}"
        if number > 5:
            passed.append(node)
    answer: Object = {
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }
    if name in ODD and mood % 2:
        return _odd_filtered(mood // 2, body, answer, passed)
    if body.get("NodeNames") is not None:
        # Go decodes keys case-insensitively.
        return {**answer, ("nodenames" if mood == 2 else "NodeNames"): passed}
    items = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] in passed]
    return {**answer, "Nodes": {"items": items}}


def _odd_filtered(mood: int, body: Object, answer: Object, passed: list[str]) -> Object:
    """Lacks what was expected, has more than that, or contradicts itself."""
    items = [{"metadata": {"name": node}} for node in passed]
    some = [node for node in passed if _number(node) % 3 == 0]
    match mood:
        case 1 if len(passed) == 1:
            # A node instead of its name; kube-scheduler would score several as empty.
            return {**answer, "Nodes": {"items": items}}
        case 2:
            return {**answer, "NodeNames": passed}
        case 3:
            return {}
        case 4:
            return {"Nodes": None, "NodeNames": None, **answer, "FailedNodes": None}
        case 5:
            answer["FailedNodes"] = dict.fromkeys(_nodes_of(body), "")
        case 6:
            # Passed, and given a reason.
            answer["FailedNodes"] = dict.fromkeys(_nodes_of(body), "contradicts itself")
        case 7:
            answer["FailedAndUnresolvableNodes"] = dict.fromkeys(some, "contradicts itself")
        case 8 if body.get("NodeNames") is not None:
            passed = [*passed, "unknown"]
        case 9:
            items = [{"metadata": {"name": node}} for node in some]
            return {**answer, "Nodes": {"items": items}, "NodeNames": some}
        case _:
            pass
    return {**answer, "Nodes": {"items": items}, "NodeNames": passed}


def _odd_scores(mood: int, scores: list[Object]) -> list[Object]:
    """Leaves nodes out, adds others, or goes beyond 0 to 10."""
    if mood == 0:
        return [s for s in scores if _number(str(s["Host"])) % 2]
    if mood == 1:
        return [{"host": s["Host"], "score": s["Score"] * 13 - 50} for s in scores]
    if mood == 2:
        return [*scores, {"Host": "unknown", "Score": 10}, {"Score": 3}]
    return [] if mood == 3 else scores


def prioritized(name: str, body: Object) -> list[Object] | None:
    """Returns node scores from 0 to 10; None is a failure."""
    pod = _pod_of(body)
    if _number(name, pod, "prioritize") % 8 == 0 and name not in STEADY:
        return None
    scores = [{"Host": n, "Score": _number(name, pod, n, "score") % 11} for n in _nodes_of(body)]
    if name in ODD:
        return _odd_scores(_number(name, pod, "odd scores") % 6, scores)
    return scores


def reviewed(name: str, body: Object) -> Object | None:
    """Removes some candidates of a preemption, and reverses the victims of others."""
    pod = _pod_of(body)
    lenient = name in LENIENT
    if lenient and _number(name, pod, "preempt") % 6 == 0:
        return None
    left: Object = {}
    for node, victims in _victims_of(body).items():
        number, pods = _number(name, pod, node, "victims") % 8, victims["Pods"]
        counted = victims
        if number in (0, 1):
            continue
        if number == 2:
            pods = pods[::-1]
        if number == 3 and lenient:
            pods = []
        if name in ODD:
            if number == 4:
                pods = [*pods[1:], pods[0]]
            if number == 5:
                counted = {"numPDBViolations": number, "Extra": None}
            if number == 6 and _number(name, pod) % 3 == 0:
                pods = [*pods, {"UID": "unknown"}]
        left[node] = {**counted, "Pods": pods}
    if name in ODD and _number(name, pod, "preempt") % 9 == 0:
        return {"NodeNameToMetaVictims": {**left, "unknown": {"Pods": []}}}
    return {"NodeNameToMetaVictims": left}


def moved(part: Object, start: str, end: str) -> Object:
    """Returns a case or answer with the extenders at another address."""
    return dict(json.loads(json.dumps(part).replace(start, end)))


@contextmanager
def serving() -> Iterator[str]:
    """Runs the server in a `with` block; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


_VERBS: Final[dict[str, Callable[[str, Object], Any]]] = {
    "filter": filtered,
    "prioritize": prioritized,
    "preempt": reviewed,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        _, name, verb = self.path.split("/")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = _VERBS[verb](name, body)
        raw = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(_FAILS if answer is None else _OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, since there are thousands of requests."""


def _number(*about: str) -> int:
    return crc32("|".join(about).encode())


def _pod_of(body: Object) -> str:
    meta = body["Pod"]["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


def _nodes_of(body: Object) -> list[str]:
    names = body.get("NodeNames")
    if names is None:
        return [node["metadata"]["name"] for node in body["Nodes"]["items"]]
    return list(names)


def _victims_of(body: Object) -> dict[str, Object]:
    given = body.get("NodeNameToMetaVictims")
    if given is not None:
        return dict(given)
    return {
        node: {
            "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
            "NumPDBViolations": victims["NumPDBViolations"],
        }
        for node, victims in body["NodeNameToVictims"].items()
    }
