"""Everything that runs in a pod runs where nothing can be written, as a uid without a name.

The processes are real, in a mount namespace whose file systems are all read-only.
"""

import asyncio
import base64
import json
import signal
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scenario.test_what_if_of_daemons import kubeconfig
from tests.scenario.world import LIMIT_SECONDS, World, node_object, play, pod_object
from tests.support.extender import FakeExtender, names_of
from tests.support.forked import VARIABLES, Outcome, outcomes, words_of
from tests.support.pki import Authority
from tests.support.pod_rights import HOSTNAME, UID, in_pod, is_possible
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(not is_possible(), reason="needs root: makes mount namespaces")
WORDS = ("-m", "scheduler")
PIPE = asyncio.subprocess.PIPE


def outcome(*arguments: str, **environ: str) -> tuple[int, str, str]:
    """Run something as a pod; its exit status, output and log."""
    done = subprocess.run(
        in_pod(*arguments, environ=environ), capture_output=True, text=True, check=False, cwd="/"
    )
    return done.returncode, done.stdout, done.stderr


@asynccontextmanager
async def running(*arguments: str | Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Any]]:
    """A command that runs until it is told to stop; gives its process, and what it logs."""
    process = await asyncio.create_subprocess_exec(
        *in_pod(*WORDS, *map(str, arguments)), stdout=PIPE, stderr=PIPE, cwd="/"
    )
    logged = asyncio.create_task(process.communicate())
    try:
        yield process, logged
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_SECONDS):
            await logged
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that another user can reach; pytest closes its own to others at every start."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


def cluster_in(folder: Path) -> Path:
    """A cluster as a file."""
    path = folder / "cluster.yaml"
    listed = [node_object("n0"), pod_object("p", cpu="1"), pod_object("huge", cpu="99")]
    path.write_text(yaml.safe_dump_all(listed))
    return path


# --- the surroundings -----------------------------------------------------------------------------


def test_nothing_can_be_written_there() -> None:
    """Else the other tests would prove nothing."""
    code = (
        "import os, pwd, socket, tempfile\n"
        "def fails(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except (OSError, KeyError) as problem: return type(problem).__name__\n"
        "print(os.getuid(), socket.gethostname(), os.environ.get('HOME'),\n"
        "      fails(tempfile.gettempdir), fails(pwd.getpwuid, os.getuid()),\n"
        "      fails(socket.gethostbyname, socket.gethostname()))\n"
    )

    told = outcome("-c", code)

    expected = f"{UID} {HOSTNAME} None FileNotFoundError KeyError gaierror\n"
    assert told == (0, expected, "")


# --- what ends by itself --------------------------------------------------------------------------


OVER_FILES = {
    "explain": ("explain",),
    "simulate": ("simulate",),
    "what-if": ("what-if", "--drain=n0"),
    "capacity": ("capacity", "--like=p"),
}
ABOUT_THEMSELVES = {
    "config": ("config",),
    "version": ("version",),
    "help": ("help", "run"),
    "top": ("top", "-h"),
}


@pytest.fixture(scope="module")
def ended() -> dict[str, Outcome]:
    """How each command ended that needs no cluster."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        file = ("-f", str(cluster_in(folder)), "-o", "json")
        over_files = {name: (*words, *file) for name, words in OVER_FILES.items()}
        starts = over_files | ABOUT_THEMSELVES | {"nothing": ("explain", "p")}
        status, out, err = outcome(*words_of(starts), **VARIABLES)
    assert status == 0, err
    return outcomes(out)


@pytest.mark.parametrize("command", OVER_FILES)
def test_commands_over_files(ended: dict[str, Outcome], command: str) -> None:
    """They read and answer."""
    _, out, err = ended[command]

    assert json.loads(out)
    assert err == ""


@pytest.mark.parametrize("command", ABOUT_THEMSELVES)
def test_commands_about_themselves(ended: dict[str, Outcome], command: str) -> None:
    """They need nothing at all."""
    status, out, err = ended[command]

    assert (status, err) == (0, "")
    assert out


def test_without_a_kubeconfig_and_a_home(ended: dict[str, Outcome]) -> None:
    """What was looked for is said; that nobody has a home here is no crash."""
    status, out, err = ended["nothing"]

    assert (status, out) == (2, "")
    assert err.startswith("stowage explain: no API server given: expected --kubeconfig FILE")
    assert "Traceback" not in err


def test_a_recording_is_replayed(tmp_path: Path) -> None:
    """Reading one writes nothing."""

    async def story(world: World) -> None:
        await world.start_daemon(record=str(tmp_path / "recorded"))
        world.node("n0")
        world.pod("p")
        await world.bound("p")
        await world.stop_daemon()

    play(story)

    status, out, err = outcome(*WORDS, "replay", str(tmp_path / "recorded"))

    assert (status, err) == (0, "")
    assert "identical" in out


def test_certificates_of_a_kubeconfig_stay_in_memory(tmp_path: Path) -> None:
    """Inline ones of a server and of a client."""
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("me", "me")
    path = tmp_path / "kubeconfig"
    user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
    cluster = {"server": "https://localhost:1", "certificate-authority-data": data(authority.file)}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(document))
    code = (
        "import asyncio, sys\n"
        "from scheduler.daemon.client.connection import load_connection\n"
        "found = asyncio.run(load_connection(kubeconfig=sys.argv[1]))\n"
        "print(found.access.tls.context.get_ca_certs()[0]['subject'])"
    )

    status, out, err = outcome("-c", code, str(path))

    assert (status, err) == (0, "")
    assert "authority" in out


# --- what runs on ---------------------------------------------------------------------------------


def test_the_daemon_with_an_extender_whose_certificates_are_inline(tmp_path: Path) -> None:
    """It starts, asks the extender, binds, answers another command, and ends well."""
    authority = Authority(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "extender", server=True))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("stowage", "stowage")
    tls = {
        "caData": data(authority.file),
        "certData": data(certificate),
        "keyData": data(key),
    }

    async def story(world: World) -> None:
        credentials = kubeconfig(world, tmp_path)
        extender = FakeExtender(context, filter=lambda body: {"NodeNames": names_of(body)})
        async with extender:
            config = tmp_path / "config.yaml"
            patient = {"enableHTTPS": True, "httpTimeout": "60s"}
            document = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                # A lease is lost where the machine stands still for seconds.
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(credentials)},
                "extenders": [extender.config("filter", **patient, tlsConfig=tls)],
            }
            config.write_text(yaml.safe_dump(document))
            port = free_port()
            words = ("run", "--config", config, f"--secure-port={port}")
            serving = ("--bind-address=127.0.0.1", "--serve-without-authorization")
            world.node("n0")
            world.pod("p")
            async with running(*words, *serving) as (process, logged):
                assert await world.bound("p") == ["n0"]
                asked = ("--daemon", f"https://127.0.0.1:{port}", "--insecure-skip-tls-verify")
                like = ("--like", "p", "-o", "json", "--kubeconfig", str(credentials))
                told = await asyncio.to_thread(outcome, *WORDS, "capacity", *asked, *like)
            _, log = logged.result()

            assert process.returncode == 0
            assert (told[0], told[2]) == (0, "")
            assert json.loads(told[1])["fits"] > 0
            assert extender.count("filter") == 1
            assert log.decode().count("Crash recordings are off") == 1
            assert "Traceback" not in log.decode()

    play(story)


@pytest.mark.parametrize(
    "words",
    [
        ("shadow", "--every=1", "--secure-port={port}", "--serve-without-authorization"),
        ("operator", "--health-port={port}"),
    ],
    ids=lambda words: words[0],
)
def test_processes_beside_it(words: tuple[str, ...], tmp_path: Path) -> None:
    """They start, answer their probes, and end well."""
    port = free_port()

    async def answers() -> None:
        """Wait until something listens."""
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return

    async def story(world: World) -> None:
        credentials = kubeconfig(world, tmp_path)
        given = [word.format(port=port) for word in words]
        async with running(*given, "--kubeconfig", credentials) as (process, logged):
            async with asyncio.timeout(LIMIT_SECONDS):
                await asyncio.wait(
                    {logged, asyncio.create_task(answers())}, return_when=asyncio.FIRST_COMPLETED
                )
        _, log = logged.result()

        assert process.returncode == 0, log.decode()
        assert "Traceback" not in log.decode()

    play(story)
