"""Records how a real API server answers the steps.

    python -m tests.unit.sandbox.agreement.record KUBECONFIG

The server needs no controllers and must not have the namespace of the steps yet:
`python -m e2e.support up` starts one.
"""

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
from kubernetes.aio import client, config

from tests.unit.sandbox.agreement.answers import answers

RECORDED = Path(__file__).with_name("recorded.jsonl")


async def main(kubeconfig: str) -> None:
    await config.load_kube_config(kubeconfig)
    settings = client.Configuration.get_default_copy()
    api = client.ApiClient(settings)
    context = api.rest_client.ssl_context
    connector = aiohttp.TCPConnector(ssl=context) if context else None
    lines = []
    async with aiohttp.ClientSession(settings.host, connector=connector) as session:
        async for step, answer in answers(session):
            lines.append(json.dumps({"step": step.name, "answer": answer}, sort_keys=True))
    await api.close()
    RECORDED.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
