"""Who may come in, over which connection, and what reviews say."""

import asyncio
import base64
import ssl
from pathlib import Path

import aiohttp
import yaml

from scheduler.sandbox import Account, Sandbox, Settings
from tests.support.clock import FakeClock
from tests.unit.sandbox.support import NODES, Client, node, serve

ADMIN = Account("admin", "s3cret", ("system:masters",))
GUEST = Account("guest", "hello", is_allowed=False)
KNOWN = Settings(accounts=(ADMIN, GUEST))


def bearer(account: Account) -> dict[str, str]:
    return {"Authorization": f"Bearer {account.token}"}


def test_without_accounts_everybody_may_do_everything() -> None:
    """A sandbox for a demo asks for nothing and allows everything."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        review = await client.post(path, {"spec": {}})

        assert review.object["status"] == {"allowed": True}
        assert (await client.get(NODES, Authorization="Bearer nonsense")).status == 200

    serve(story)


def test_unknown_tokens_are_turned_away() -> None:
    """With accounts, only their tokens open the door; probes are open to all."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        without = await client.get(NODES)
        wrong = await client.get(NODES, Authorization="Bearer other")
        right = await client.get(NODES, **bearer(GUEST))
        probe = await client.get("/healthz")

        assert [answer.status for answer in (without, wrong, right, probe)] == [401, 401, 200, 200]
        assert without.object["reason"] == "Unauthorized"
        assert sandbox.requests.recent[-2].user == "guest"

    serve(story, KNOWN)


def test_reviews_speak_of_the_known_accounts() -> None:
    """Other servers can ask whose token it is and what that user may do."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        async def review(path: str, spec: object) -> object:
            answer = await client.post(f"/apis/{path}", {"spec": spec}, **bearer(ADMIN))
            assert answer.status == 201
            return answer.object["status"]

        tokens = "authentication.k8s.io/v1/tokenreviews"
        access = "authorization.k8s.io/v1/subjectaccessreviews"

        assert await review(tokens, {"token": "s3cret"}) == {
            "authenticated": True,
            "user": {"username": "admin", "groups": ["system:masters"]},
        }
        assert await review(tokens, {"token": "other"}) == {
            "user": {},
            "error": "invalid bearer token",
        }
        assert await review(access, {"user": "admin"}) == {"allowed": True}
        denied = await review(access, {"user": "guest"})
        assert isinstance(denied, dict)
        assert denied["allowed"] is False

    serve(story, KNOWN)


def test_a_service_account_gets_a_token() -> None:
    """TokenRequest gives a token that lets its service account in."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await client.post(path, {"metadata": {"name": "stowage"}}, **bearer(ADMIN))

        request = await client.post(
            f"{path}/stowage/token", {"spec": {"expirationSeconds": 600}}, **bearer(ADMIN)
        )
        token = request.object["status"]["token"]
        whoami = await client.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {},
            Authorization=f"Bearer {token}",
        )

        assert request.object["status"]["expirationTimestamp"] == "2026-01-01T00:26:40Z"
        assert whoami.object["status"]["userInfo"]["username"] == (
            "system:serviceaccount:default:stowage"
        )

    serve(story, KNOWN)


def test_tls_serves_what_its_kubeconfig_trusts(tmp_path: Path) -> None:
    """A client that trusts the certificate in the kubeconfig, and only that, gets in."""

    async def play() -> None:
        settings = Settings(use_tls=True, accounts=(ADMIN,))
        async with await Sandbox.start(settings) as sandbox:
            sandbox.create(node("n"))
            sandbox.write_kubeconfig(tmp_path / "config")
            content = yaml.safe_load((tmp_path / "config").read_text())
            cluster = content["clusters"][0]["cluster"]
            pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
            trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=pem))
            token = content["users"][0]["user"]["token"]
            async with (
                aiohttp.ClientSession(cluster["server"], connector=trust) as session,
                session.get(NODES, headers={"Authorization": f"Bearer {token}"}) as response,
            ):
                assert (await response.json())["items"][0]["metadata"]["name"] == "n"

    asyncio.run(play())

    assert (tmp_path / "config").stat().st_mode & 0o077 == 0


def test_the_kubeconfig_of_a_plain_sandbox_has_no_secrets() -> None:
    """Without TLS and accounts the file names the server and nothing else."""

    async def story(sandbox: Sandbox, _client: Client) -> None:
        content = sandbox.kubeconfig()

        assert content["clusters"][0]["cluster"] == {"server": sandbox.url}
        assert content["users"][0]["user"] == {}

    serve(story, clock=FakeClock())
