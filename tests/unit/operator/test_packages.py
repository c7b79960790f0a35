"""Packages with plugins: what is in a wheel, and what is said of one that cannot be used."""

import zipfile
from importlib.metadata import entry_points
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from scheduler.config.problems import Problem
from scheduler.operator.packages import (
    MAX_ENTRY_POINTS_BYTES,
    Wheel,
    WheelPlace,
    packages_of,
    wheel_in,
    wheels_wanted,
)
from tests.unit.operator.objects import make_config_map, make_scheduler, make_wheel

PLACE = WheelPlace("stowage", "racks", "racks.whl")
RACKS = {"name": "racks", "wheel": {"configMap": "racks", "key": "racks.whl"}}
FOUND = Wheel(("CoolRacks",), "digest")


def found(content: bytes) -> Wheel | Problem:
    return wheel_in(make_config_map("racks", {"racks.whl": content}), PLACE)


def test_a_wheel_announces_its_plugins() -> None:
    """As it does to the daemon."""
    one, same, other = (found(make_wheel(*names)) for names in (["B", "A"], ["A", "B"], ["A"]))

    assert isinstance(one, Wheel)
    assert one.provides == ("A", "B")
    assert isinstance(same, Wheel)
    assert isinstance(other, Wheel)
    assert other.digest not in (one.digest, same.digest)


def test_it_is_imported_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file of any name, as a ConfigMap becomes one; its announcement is found as well."""
    (tmp_path / "racks").write_bytes(make_wheel("CoolRacks", module="racks_in_an_archive"))
    monkeypatch.syspath_prepend(str(tmp_path / "racks"))

    [entry] = entry_points(group="stowage.plugins", name="CoolRacks")

    assert entry.load().__module__ == "racks_in_an_archive"


def zipped(**files: bytes) -> bytes:
    """An archive; names as in `racks__so`."""
    memory = BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return memory.getvalue()


HUGE = zipped(**{"r.dist-info/entry_points.txt": b" " * (MAX_ENTRY_POINTS_BYTES + 1)})
UNUSABLE = {
    "no archive": (b"PK nothing", "not a zip file"),
    "empty": (b"", "not a zip file"),
    "cut off": (make_wheel("A")[:-30], "zip"),
    "native code": (make_wheel("A", beside={"a.so": b""}), "a.so cannot be imported"),
    "no entry points": (zipped(a__py=b""), "announces no plugin"),
    "other entry points": (make_wheel("A", group="console_scripts"), "announces no plugin"),
    "a huge file in it": (HUGE, "more than 65536 bytes"),
}


@pytest.mark.parametrize(("content", "expected"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_is_no_wheel_of_plugins(content: bytes, expected: str) -> None:
    """Says why, at the key."""
    problem = found(content)

    assert isinstance(problem, Problem)
    assert problem.path == ("key",)
    assert problem.message.startswith("expected a wheel of Python code alone: ")
    assert expected in problem.message


@given(st.binary(max_size=300), st.integers(0, 900))
def test_no_bytes_end_the_operator(noise: bytes, at: int) -> None:
    """Law: whatever a ConfigMap holds, there is a wheel or a problem."""
    whole = make_wheel("A")

    assert isinstance(found(whole[:at] + noise + whole[at:]), Wheel | Problem)


@pytest.mark.parametrize(
    ("config_map", "path", "expected"),
    [
        pytest.param(
            None, "configMap", 'there is no ConfigMap "racks" in namespace stowage', id="nothing"
        ),
        pytest.param(
            {"data": {"racks.whl": "text"}},
            "key",
            'ConfigMap "racks" has no "racks.whl" in binaryData, but nothing',
            id="text",
        ),
        pytest.param(
            make_config_map("racks", {"b": b"", "a": b""}),
            "key",
            'ConfigMap "racks" has no "racks.whl" in binaryData, but a, b',
            id="other keys",
        ),
    ],
)
def test_what_is_not_there(config_map: dict[str, Any] | None, path: str, expected: str) -> None:
    """The ConfigMap or the key, and what there is instead."""
    assert wheel_in(config_map, PLACE) == Problem((path,), expected)


def test_packages_of_an_instance() -> None:
    """Images say what they provide, wheels announce it."""
    image = {"name": "gpus", "image": "gpus:1", "provides": ["PackGpus", "Other"]}
    scheduler = make_scheduler(plugins=[image, RACKS])

    assert list(wheels_wanted(scheduler)) == [PLACE]
    packages = packages_of(scheduler, {PLACE: FOUND})
    assert packages.names == {"PackGpus", "Other", "CoolRacks"}
    assert packages.digests == ("digest",)
    assert packages.problems == ()


def test_problems_of_packages_have_their_path() -> None:
    """Into the Scheduler; one plugin in two packages is one of them."""
    image = {"name": "images", "image": "racks:1", "provides": ["CoolRacks"]}
    missing = {PLACE: Problem(("configMap",), "there is none")}

    [absent] = packages_of(make_scheduler(plugins=[RACKS]), missing).problems
    [twice] = packages_of(make_scheduler(plugins=[image, RACKS]), {PLACE: FOUND}).problems

    assert str(absent) == "spec.plugins[0].wheel.configMap: there is none"
    assert str(twice) == 'spec.plugins[1]: "CoolRacks" is in images already'
