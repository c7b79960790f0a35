"""What the demo is told when the API server refuses something."""

import asyncio

import pytest

from apistub import Sandbox
from apistub.demo.connection import Connection
from apistub.demo.processes import DemoError

NAMESPACES = "/api/v1/namespaces"


def test_a_refusal_ends_the_demo_with_what_the_server_said() -> None:
    """What is made twice is there already; the first time all is well."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}}

    async def play() -> None:
        async with (
            await Sandbox.start() as sandbox,
            Connection.session(sandbox.url) as session,
        ):
            connection = Connection(session)
            await connection.create(NAMESPACES, namespace)
            with pytest.raises(
                DemoError, match=r"POST /api/v1/namespaces was answered 409: .*exists"
            ):
                await connection.create(NAMESPACES, namespace)
            with pytest.raises(DemoError, match=r"PATCH .* was answered 404: "):
                await connection.change(f"{NAMESPACES}/none", {"metadata": {}})

    asyncio.run(play())
