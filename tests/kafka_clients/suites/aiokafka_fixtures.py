"""The fixtures of aiokafka's own tests, with a broker that runs already in the place of its container.

It replaces ``tests/conftest.py`` in a copy of aiokafka, and is imported by nothing here. KAFKA_URI names the broker.
Tests that need what only the container has are skipped with the reason.
"""

from __future__ import annotations

import asyncio
import gc
import os
import unittest
from collections.abc import Iterator
from typing import Any

import pytest

#: The release for whose requests its tests are chosen.
_VERSION = "2.3.0"


class _OfContainer:
    """Something of the container, such as Kafka's own commands; a test that uses it is skipped."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        def skip(*_: object, **__: object) -> None:
            raise unittest.SkipTest(f"needs {self._what} of aiokafka's container")

        return skip

    def __truediv__(self, name: str) -> str:
        raise unittest.SkipTest(f"needs {self._what} of aiokafka's container")

    def cleanup(self) -> None:
        """Do nothing: there is nothing to clean up."""


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Give each class of tests an event loop."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    if not made.is_closed():
        made.run_until_complete(asyncio.sleep(0))
        made.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Prepare a class whose tests need no broker."""
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Prepare a class whose tests need a broker."""
    host, _, port = os.environ["KAFKA_URI"].rpartition("/")[2].rpartition(":")
    more = {
        "loop": loop,
        "kafka_host": host,
        "kafka_port": int(port),
        "hosts": [f"{host}:{port}"],
        "kafka_version": _VERSION,
        "acl_manager": _OfContainer("the command for access rules"),
        "kafka_config": _OfContainer("the command for users"),
        "ssl_folder": _OfContainer("the certificates"),
        "kerberos_utils": _OfContainer("Kerberos"),
    }
    for name, value in more.items():
        setattr(request.cls, name, value)
