"""A small web application (ASGI, without a framework): what is posted to it is published, and comes back as a stream.

Usage: python -m tests.integration.aio.web_application BROKER
It runs under uvicorn on uvloop and prints the port on which it listens. SIGTERM ends it.

- POST /messages: publishes the body; answers 200 with the message's id once it is stored, 503 when that fails.
- GET /messages: answers with all messages, one a line, and goes on with those that come.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from logd.aio import Consumer, Producer
from logd.errors import LogdError

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TOPIC = "messages"


class WebApplication:
    """The application; its clients live from the server's start to its end."""

    def __init__(self, broker: str) -> None:
        self.broker = broker

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection's request, or the life of the server."""
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        elif scope["method"] == "POST":
            await self.publish(receive, send)
        else:
            await self.read(receive, send)

    async def live(self, receive: Receive, send: Send) -> None:
        """Open the clients, and close them at the end."""
        await receive()
        async with Producer(self.broker) as self.producer, Consumer(self.broker) as self.consumer:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def publish(self, receive: Receive, send: Send) -> None:
        """Answer a POST."""
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        try:
            sent = await self.producer.send(TOPIC, body)
        except LogdError as error:
            status, text = 503, str(error)
        else:
            status, text = 200, str(sent.first_id)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})

    async def read(self, receive: Receive, send: Send) -> None:
        """Answer a GET until the browser goes."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        streaming = asyncio.create_task(self.stream(send))
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            streaming.cancel()
            await asyncio.wait([streaming])

    async def stream(self, send: Send) -> None:
        """Send messages as they come."""
        async with self.consumer.stream(TOPIC) as stream:
            async for message in stream:
                await send({"type": "http.response.body", "body": (message.payload or b"") + b"\n", "more_body": True})


def main(broker: str) -> None:
    """Serve until SIGTERM, on a free port, and print its number first."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(
        WebApplication(broker), loop="uvloop", lifespan="on", log_level="warning", timeout_graceful_shutdown=60
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
