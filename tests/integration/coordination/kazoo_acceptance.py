"""A pytest plugin that runs the test-suite in kazoo's wheel against one server that runs already.

    KAZOO_SERVER=127.0.0.1:2181 python -m pytest -p tests.integration.coordination.kazoo_acceptance --pyargs kazoo.tests

kazoo's suite starts its own ensemble of JVMs. Here it is given a list of one server instead, whose process it cannot
touch: a test that asks for more is skipped, with the reason. With a real ZooKeeper behind the address the same tests
pass and the same ones are skipped, which is what makes the suite a measure.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn
from unittest.mock import MagicMock

import pytest

SERVER = "KAZOO_SERVER"
#: Parts of the suite that are about several servers, other event loops, or Kerberos.
NOT_HERE = {
    "test_sasl.py": "needs SASL",
    "TestReconfig": "needs several servers",
    "TestReadOnlyMode": "needs several servers",
    "test_eventlet": "needs eventlet",
    "test_gevent": "needs gevent",
}


def _out_of_reach(*_: object, **__: object) -> NoReturn:
    pytest.skip("needs the server's own process, more servers, or TLS")


class ForeignServer:
    """A server as kazoo's harness knows one; nothing can be done to it."""

    running = True
    run = stop = reset = destroy = _out_of_reach

    def __init__(self, address: str) -> None:
        self.address = address
        self.secure_address = address


class ForeignEnsemble(list[ForeignServer]):
    """An ensemble as kazoo's harness knows one, started and stopped elsewhere."""

    get_ssl_client_configuration = _out_of_reach

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and index >= len(self):
            _out_of_reach()
        return super().__getitem__(index)

    def start(self) -> None:
        """Do nothing: the server runs."""

    def stop(self) -> None:
        """Do nothing: the server is not the suite's to stop."""

    reset = terminate = stop

    def get_logs(self) -> list[str]:
        """Return nothing: the server's log is not the suite's to read."""
        return []


def pytest_configure() -> None:
    """Give kazoo's harness the server, before a test is imported."""
    for name in ("OpenSSL", "jks"):  # the harness imports them for key stores, never used here
        if name not in sys.modules:
            stand_in: ModuleType = MagicMock(name=name)
            sys.modules[name] = stand_in
    os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.0")
    harness: Any = import_module("kazoo.testing.harness")
    ensemble = ForeignEnsemble([ForeignServer(os.environ[SERVER])])
    harness.get_global_cluster = lambda: ensemble


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of NOT_HERE."""
    for item in items:
        for name, reason in NOT_HERE.items():
            if name in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))
