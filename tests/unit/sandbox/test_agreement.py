"""The sandbox against the recorded answers of a real API server."""

import asyncio
import json

import aiohttp

from scheduler.sandbox import Sandbox
from tests.unit.sandbox.agreement.answers import Answer, answers
from tests.unit.sandbox.agreement.record import RECORDED
from tests.unit.sandbox.agreement.steps import STEPS

_GO = "the real message is that of Go's decoder or printer"
_PATCH = "ours says what did not apply"
_UNNEEDED = "nothing here reads it"
DIFFERENT = {
    "another kind": _GO,
    "another version": _GO,
    "broken selector": "ours says what a requirement may look like",
    "budget of both kinds": _GO,
    "change the node": "the difference is printed in another way",
    "change the uid": "the real server says it twice",
    "claim": "no controller would remove the finalizer",
    "delete at once": "the answer has the state before, like the event",
    "delete unbound": "the answer has the state before, like the event",
    "failed test": _PATCH,
    "headless service": _UNNEEDED,
    "item without key": "a mistake of the client is no error of the server",
    "narrow too late": "the difference is printed in another way",
    "no JSON": _GO,
    "no microseconds": _GO,
    "no such group": "a Status is easier on clients than plain text",
    "patch of no form": "ours says which forms there are",
    "remove nothing": _PATCH,
    "wrong pod: overhead without class": "there are no RuntimeClasses",
    "wrong pod: volume of two types": "ours names the volume, not the second type",
    "wrong quantity": "ours says where",
    "wrong token": _GO,
    "wrong type": _GO,
}
"""Deliberate differences, each with its reason."""


def recorded() -> dict[str, Answer]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return {record["step"]: record["answer"] for record in map(json.loads, lines)}


async def answered() -> dict[str, Answer]:
    async with (
        await Sandbox.start() as sandbox,
        aiohttp.ClientSession(sandbox.url) as session,
    ):
        return {step.name: answer async for step, answer in answers(session)}


def test_every_step_is_recorded_once() -> None:
    """Names are unique, and the record is of these steps."""
    names = [step.name for step in STEPS]

    assert len(set(names)) == len(names)
    assert list(recorded()) == names


def test_the_sandbox_answers_like_a_real_api_server() -> None:
    """Code, headers and body of every answer are the same, except where a reason is given."""
    real, ours = recorded(), asyncio.run(answered())

    differing = {name for name in real if ours[name] != real[name]}

    unexpected = {name: (real[name], ours[name]) for name in differing - set(DIFFERENT)}
    assert unexpected == {}
    assert set(DIFFERENT) - differing == set()
