"""Answers cases, one per line: each has objects and a configuration."""

from collections.abc import Collection

import msgspec

from scheduler.config.load import default_configuration, load_object
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import Answer
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, ClusterState, Profiles
from scheduler.tools.offline.reading import InputError, objects_from_documents


def answer_case(
    line: bytes | str, feature_gates: Collection[str] = (), *, preempts: bool = False
) -> Answer:
    """Answer one case; the answer to an invalid case is an error."""
    try:
        case = msgspec.json.decode(line)
    except (ValueError, RecursionError) as problem:
        # Wrong UTF-8 is a ValueError as well, deep nesting a RecursionError.
        return Answer(error=f"not valid JSON: {problem}")
    try:
        return _answer(case, feature_gates, preempts=preempts)
    except SchedulerError as problem:
        return Answer(error=str(problem))


def _answer(case: object, feature_gates: Collection[str], *, preempts: bool) -> Answer:
    profiles, cluster = load_case(case, feature_gates, preempts=preempts)
    explainer = Explainer(
        cluster.engine,
        profiles.framework_of,
        preempts=preempts,
        asker=cluster.asker,
        tells_devices=True,
    )
    return Answer(tuple(explainer.explain(pod) for pod in cluster.waiting))


def load_case(
    case: object, feature_gates: Collection[str] = (), *, preempts: bool = False
) -> tuple[Profiles, ClusterState]:
    """Return the profiles of a case, and its objects loaded into an engine.

    Raises:
        SchedulerError: the case cannot be read.
    """
    if not isinstance(case, dict):
        raise InputError('expected an object with "objects"')
    if "objects" not in case:
        given = ", ".join(map(str, case)) or "nothing"
        raise InputError(f"objects: required, got {given}")
    raw_objects = case["objects"] or ()
    if not isinstance(raw_objects, list | tuple):
        raise InputError("objects: expected a list")
    is_named = case.get("config") is not None
    if is_named:
        config = load_object(
            case["config"],
            source="config",
            default_scheduler_name=DEFAULT_PROFILE,
            feature_gates=feature_gates,
        )
    else:
        config = default_configuration(DEFAULT_PROFILE, feature_gates)
    profiles = Profiles(config, is_named=is_named, tries_all_nodes=preempts)
    documents = ((f"objects[{i}]", raw) for i, raw in enumerate(raw_objects))
    return profiles, profiles.load(objects_from_documents(documents, watched=profiles.watched))
