from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import openai

from pytest_elo.gateway.http import http_module
from tests.loopback import LoopbackGateway, reply

ROOT = Path(__file__).parents[2]


def test_the_transport_is_built_on_the_library_under_the_sdk() -> None:
    modules = {base.__module__.partition(".")[0] for base in openai.DefaultHttpxClient.__mro__}
    assert http_module().__name__ in modules
    assert len(modules & {"httpx", "httpx2"}) == 1


def test_replaying_and_asking_never_import_the_sdk() -> None:
    """Nor the HTTP library under it: 0.6 s of processor time in every worker, and half of a call's."""
    script = """
        import asyncio, sys
        from pytest_elo.gateway.client import Gateway, GatewaySettings
        from pytest_elo.gateway.endpoint import Endpoint
        from pytest_elo.ledger.journal import Journal
        from pytest_elo.records import Tag

        async def main():
            endpoint = Endpoint.checked(sys.argv[1], "sk-test-0123456789abcdef", key_variable="K")
            gateway = Gateway(endpoint, GatewaySettings(model="test-model"), Journal(None, "run"))
            reply = await gateway.ask_as(Tag("t", "i", "s"))([{"role": "user", "content": "hello"}])
            await gateway.aclose()
            print(reply.text, {"openai", "httpx", "httpx2"} & set(sys.modules))

        asyncio.run(main())
    """
    with LoopbackGateway(lambda request: reply("hi")) as gateway:
        command = [sys.executable, "-c", textwrap.dedent(script), gateway.base_url]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout == "hi set()\n"
