"""Anonymous, without rights, with rights, with a certificate, through a proxy: the right answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import uvloop

from scheduler.config.options import RunOptions
from scheduler.daemon.client.reviews import User
from scheduler.daemon.serving.authentication import Authenticator, Authorities, Reviews
from tests.support.clock import FakeClock
from tests.support.pki import Authority, client_context
from tests.unit.serving.harness import OPERATOR, Instance, serving

Story = Callable[[Instance], Awaitable[None]]


def _tell(story: Story, **options: Any) -> None:
    async def run() -> None:
        async with serving(**options) as instance:
            await story(instance)

    uvloop.run(run())


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        pytest.param("/healthz", "", 200, id="anonymous sees health"),
        pytest.param("/livez", "", 200, id="anonymous sees liveness"),
        pytest.param("/readyz?verbose", "", 200, id="anonymous sees readiness"),
        pytest.param("/readyz/shutdown", "", 403, id="anonymous does not see single checks"),
        pytest.param("/metrics", "", 403, id="anonymous does not see metrics"),
        pytest.param("/debug/cache", "", 403, id="anonymous does not see the cache"),
        pytest.param("/no-such-path", "", 403, id="nor what does not exist"),
        pytest.param("/healthz", "bad-token", 401, id="a bad token is refused everywhere"),
        pytest.param("/metrics", "bad-token", 401, id="a bad token sees no metrics"),
        pytest.param("/metrics", "nobody-token", 403, id="a user without rights"),
        pytest.param("/metrics", "operator-token", 200, id="a user with rights"),
        pytest.param("/debug/queue", "operator-token", 200, id="rights go by path and verb"),
        pytest.param("/no-such-path", "operator-token", 404, id="what does not exist"),
        pytest.param("/configz", "master-token", 200, id="system:masters see everything"),
    ],
)
def test_who_sees_what(path: str, token: str, status: int) -> None:
    """Refused callers learn nothing but that."""

    async def story(instance: Instance) -> None:
        assert (await instance.get(path, token))[0] == status

    _tell(story)


def test_a_token_that_is_no_text_is_refused() -> None:
    """Whoever sends odd bytes is unknown; it is no failure of ours to be logged."""
    # What aiohttp makes of a byte that is no UTF-8.
    request: Any = SimpleNamespace(transport=None, headers={"Authorization": "Bearer \udcff"})
    authenticator = Authenticator(RunOptions(), _NobodyIsAsked(), FakeClock())

    assert asyncio.run(authenticator.user_of(request, Authorities())) is None


@pytest.mark.parametrize(("length", "status"), [(12_000, 200), (20_000, 401)])
def test_a_token_may_be_long(length: int, status: int) -> None:
    """Those of identity providers name all groups of a user."""

    async def story(instance: Instance) -> None:
        token = "t" * length
        instance.reviews.tokens[token] = OPERATOR
        assert (await instance.get("/metrics", token))[0] == status

    _tell(story)


class _NobodyIsAsked(Reviews):
    async def review_token(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        raise AssertionError("the API server would be asked about a token that cannot be one")

    async def review_access(self, user: User, path: str, verb: str) -> bool:
        raise AssertionError("nobody is known")


def test_refusals_are_what_kubernetes_clients_understand() -> None:
    """A metav1.Status with kube-scheduler's words."""

    async def story(instance: Instance) -> None:
        _, forbidden, headers = await instance.get("/metrics", "nobody-token")
        _, unauthorized, _ = await instance.get("/metrics", "bad")

        assert json.loads(forbidden) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'forbidden: User "nobody" cannot get path "/metrics"',
            "reason": "Forbidden",
            "details": {},
            "code": 403,
        }
        assert json.loads(unauthorized)["reason"] == "Unauthorized"
        assert headers["Cache-Control"] == "no-cache, private"

    _tell(story)


def test_answers_of_the_api_server_count_for_a_while() -> None:
    """Ten seconds, yes and no alike; then it is asked again."""

    async def story(instance: Instance) -> None:
        for token in ("operator-token", "nobody-token", "bad-token"):
            await instance.get("/metrics", token)
            await instance.get("/metrics", token)
        first = list(instance.reviews.asked)
        instance.clock.advance(11)
        await instance.get("/metrics", "operator-token")

        assert first == [
            "operator-token",
            ("operator", "/metrics", "get"),
            "nobody-token",
            ("nobody", "/metrics", "get"),
            "bad-token",
        ]
        assert instance.reviews.asked[len(first) :] == first[:2]

    _tell(story)


def test_each_kind_of_answer_counts_for_as_long_as_its_flag_says() -> None:
    """A right that is withdrawn ends with the time for a yes, whatever that for a no is."""
    operator, other = ((name, "/metrics", "get") for name in ("operator", "nobody"))

    async def story(instance: Instance) -> None:
        asked = []
        for seconds in (0, 2, 3, 5):
            instance.clock.advance(seconds)
            instance.reviews.asked.clear()
            for token in ("operator-token", "nobody-token"):
                await instance.get("/metrics", token)
            asked.append(list(instance.reviews.asked))

        everything = ["operator-token", operator, "nobody-token", other]
        assert asked == [everything, [other], [operator, other], everything]

    _tell(
        story,
        authorization_webhook_cache_unauthorized_ttl=1.0,
        authorization_webhook_cache_authorized_ttl=4.0,
        authentication_token_webhook_cache_ttl=9.0,
    )


def test_the_api_server_is_asked_once_for_callers_at_the_same_time() -> None:
    """A scrape of several replicas of Prometheus is one review."""

    async def story(instance: Instance) -> None:
        answers = await asyncio.gather(
            *(instance.get("/metrics", "operator-token") for _ in range(5))
        )

        assert [status for status, *_ in answers] == [200] * 5
        assert instance.reviews.asked == ["operator-token", ("operator", "/metrics", "get")]

    _tell(story)


def test_without_the_api_server_only_open_paths_answer() -> None:
    """A failure is no answer: it is not kept, and lets nobody in."""

    async def story(instance: Instance) -> None:
        instance.reviews.is_down = True
        down = [
            (await instance.get("/healthz"))[0],
            (await instance.get("/metrics"))[0],
            (await instance.get("/metrics", "operator-token"))[0],
        ]
        instance.reviews.is_down = False

        assert down == [200, 500, 401]
        assert (await instance.get("/metrics", "operator-token"))[0] == 200

    _tell(story)


def test_paths_can_be_opened() -> None:
    """A trailing star stands for anything."""

    async def story(instance: Instance) -> None:
        assert (await instance.get("/metrics"))[0] == 200
        assert (await instance.get("/debug/cache"))[0] == 200
        assert (await instance.get("/healthz"))[0] == 403
        assert instance.reviews.asked == [("system:anonymous", "/healthz", "get")]

    _tell(story, authorization_always_allow_paths=("/metrics", "/debug/*"))


def test_everything_can_be_opened() -> None:
    """Our own flag; nobody is asked then."""

    async def story(instance: Instance) -> None:
        assert (await instance.get("/configz", "bad-token"))[0] == 200
        assert instance.reviews.asked == []

    _tell(story, serve_without_authorization=True)


def test_a_client_certificate_says_who_it_is(tmp_path: Path) -> None:
    """The organizations are the groups; one of another authority is refused by the handshake."""
    clients, strangers = Authority(tmp_path, "clients"), Authority(tmp_path, "strangers")
    operator = client_context(pair=clients.issue("operator", "op", ["ops"]))
    nobody = client_context(pair=clients.issue("nobody", "nobody"))
    stranger = client_context(pair=strangers.issue("stranger", "op", ["ops"]))

    async def story(instance: Instance) -> None:
        assert (await instance.get("/metrics", tls=operator))[0] == 200
        assert (await instance.get("/metrics", tls=nobody))[0] == 403
        assert (await instance.get("/healthz"))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await instance.get("/healthz", tls=stranger)
        assert instance.reviews.asked == [("op", "/metrics", "get"), ("nobody", "/metrics", "get")]

    _tell(story, client_ca_file=str(clients.file))


def test_a_servers_certificate_is_no_clients(tmp_path: Path) -> None:
    """The purpose of a certificate counts."""
    clients = Authority(tmp_path, "clients")
    context = client_context(pair=clients.issue("server", "op", ["ops"], server=True))

    async def story(instance: Instance) -> None:
        with pytest.raises(aiohttp.ClientError):
            await instance.get("/metrics", tls=context)

    _tell(story, client_ca_file=str(clients.file))


def test_a_trusted_proxy_says_who_is_asking(tmp_path: Path) -> None:
    """Only a proxy with a certificate of its own authority and an allowed name."""
    proxies, clients = Authority(tmp_path, "proxies"), Authority(tmp_path, "clients")
    front = client_context(pair=proxies.issue("front", "front-proxy"))
    other = client_context(pair=proxies.issue("other", "other", ["ops"]))
    user = client_context(pair=clients.issue("user", "user"))
    headers = {"X-Remote-User": "op", "X-Remote-Group": "ops"}

    async def story(instance: Instance) -> None:
        assert (await instance.get("/metrics", tls=front, headers=headers))[0] == 200
        assert (await instance.get("/metrics", tls=other, headers=headers))[0] == 403
        assert (await instance.get("/metrics", tls=user, headers=headers))[0] == 403
        assert (await instance.get("/metrics", headers=headers))[0] == 403
        assert [user for user, *_ in instance.reviews.asked] == ["op", "system:anonymous", "user"]

    _tell(
        story,
        client_ca_file=str(clients.file),
        requestheader_client_ca_file=str(proxies.file),
        requestheader_allowed_names=("front-proxy",),
    )


def test_only_so_many_answers_are_kept() -> None:
    """A flood of different tokens costs the API server requests, not us memory."""

    async def story(instance: Instance) -> None:
        answers = instance.server._authenticator._tokens
        answers._max_size = 3
        for i in range(10):
            await instance.get("/healthz", f"bad-{i}")

        assert len(answers._answers) == 3

    _tell(story)
