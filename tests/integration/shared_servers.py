"""Servers that all tests of a process share: each starts once, and ends with the process.

A server of its own for each test would take most of the time, so tests that neither stop nor harm one have the same.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

_S = TypeVar("_S")

_ended_at_exit = ExitStack()
atexit.register(_ended_at_exit.close)
_running: dict[tuple[object, str], Any] = {}


def folder_of_process() -> str:
    """Return a new folder, which is removed at the end of the process."""
    return _ended_at_exit.enter_context(TemporaryDirectory(prefix="logd-tests-", ignore_cleanup_errors=True))


def shared(make: Callable[[str], AbstractContextManager[_S]], user: str = "") -> _S:
    """Return the server, or servers, that ``make`` made over a new data directory. Blocks; the first call starts them.

    Tests that say another ``user`` share another server.
    """
    key = (make, user)
    if key not in _running:
        _running[key] = _ended_at_exit.enter_context(make(f"{folder_of_process()}/data"))
    found: _S = _running[key]
    return found
