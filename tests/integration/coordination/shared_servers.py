"""Servers of the tree that all tests of a process share: a new Java for each test would take most of the time.

A test that needs an empty tree has a path of its own.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class _Servers(Protocol):
    def start(self) -> object: ...

    def kill(self) -> object: ...


_S = TypeVar("_S", bound=_Servers)

_running: dict[object, Any] = {}


def shared(make: Callable[[str], _S]) -> _S:
    """Return the servers that ``make`` made over a new folder, which run until the process ends. Blocks.

    The first call starts them.
    """
    if make not in _running:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        servers = make(f"{folder}/data")
        servers.start()
        atexit.register(servers.kill)
        _running[make] = servers
    found: _S = _running[make]
    return found
