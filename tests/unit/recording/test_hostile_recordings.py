"""Whatever bytes a recording has: it is read, or one message says what is wrong with it."""

import zlib
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from scheduler.daemon.informers.kinds import KINDS
from scheduler.daemon.recording.files import MAGIC, Recording, block
from scheduler.daemon.recording.records import RecordingError, Writer, encode_answer
from scheduler.daemon.recording.replay import replay
from scheduler.kernel.engine.events import Decide, ObjectSet, Tick
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects
from tests.support.recordings import make_header
from tests.support.ugly import NONSENSE, WHOLE, named

HEADER = make_header(started=0.0, clock=0.0)


def genuine() -> bytes:
    """The lines of a recording in which an object of every kind is told of."""
    lines, writer = bytearray(), Writer()
    engine = Profiles(None).load(ClusterObjects(), seed=HEADER.seed).engine
    for number, kind in enumerate(KINDS):
        obj = kind.decode(msgspec.json.encode(named(kind.name, "x", WHOLE[kind.name])))
        for event in (ObjectSet(kind.name, obj), Decide(), Tick()):
            writer.write(lines, event, float(number), engine.handle(event, float(number)))
    return bytes(lines)


LINES = genuine().splitlines()


def written(directory: Path, *blocks: bytes) -> Path:
    path = directory / "x.recording"
    path.write_bytes(MAGIC + block(Writer.header(HEADER)) + b"".join(blocks))
    return path


def read(path: Path) -> None:
    """What `stowage replay` does."""
    engine = Profiles(None).load(ClusterObjects(), seed=HEADER.seed).engine
    told = ""
    try:
        replay(Recording([path]), engine)
    except RecordingError as problem:
        told = str(problem)
    assert not told or (str(path) in told and len(told) < 2000)


def edited(draw: Random, line: bytes) -> bytes:
    """A line with other values, without a part, with noise in it, or nested deeply."""
    how = draw.randrange(4)
    place = draw.randrange(len(line) + 1)
    if how == 0:
        return line[:place] + draw.randbytes(draw.randrange(6)) + line[place + 3 :]
    if how == 1:
        return line[:place]
    if how == 2:
        return line[:place] + b"[" * 50_000 + line[place:]
    values = [b"null", b"0", b'""', b"{}", b"[]", *map(msgspec.json.encode, NONSENSE)]
    return line.replace(draw.choice([b'"x"', b'"u"', b"1", b"[", b"true"]), draw.choice(values))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


def test_the_lines_are_those_of_a_recording(directory: Path) -> None:
    """Else nothing that follows would prove anything."""
    records = list(Recording([written(directory, block(b"\n".join(LINES)))]))

    told = [each.event.kind for each in records if isinstance(each.event, ObjectSet)]
    assert told == [kind.name for kind in KINDS]
    assert encode_answer(()) in {each.answer for each in records}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_whatever_lines_say_is_read_or_told(directory: Path, seed: int) -> None:
    """In blocks whose checksums are right, as somebody would write them who means harm."""
    draw, lines = Random(seed), list(LINES)
    for _ in range(draw.randint(1, 4)):
        number = draw.randrange(len(lines))
        lines[number] = edited(draw, lines[number])

    read(written(directory, block(b"\n".join(lines))))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200), is_whole=st.booleans())
def test_whatever_blocks_hold_is_read_or_told(
    directory: Path, noise: bytes, is_whole: bool
) -> None:
    """Also what is not compressed although its checksum is right."""
    framed = len(noise).to_bytes(4, "little") + zlib.crc32(noise).to_bytes(4, "little") + noise

    read(written(directory, framed if is_whole else noise))


def test_a_block_that_swells_is_refused(directory: Path) -> None:
    """A small file does not fill the memory."""
    swelling = block(bytes((16 << 20) + 1))
    assert len(swelling) < 100_000

    with pytest.raises(RecordingError, match=r"x.recording: .*longer than"):
        list(Recording([written(directory, swelling)]))
