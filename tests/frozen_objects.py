"""Objects of other tests, kept out of the garbage collections of a test that collects often or leaves much garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.logger import LogPublisher

#: Coroutines that end leave more to collect.
_ROUNDS = 5


def freeze_others(case: Any) -> None:
    """Freeze the objects of other tests until the end of this one, so that no collection looks through them."""
    gc.collect()
    gc.freeze()
    case.addCleanup(_thaw)


def collect_quietly(release: Callable[[], object] = lambda: None) -> None:
    """Call ``release()``, and collect garbage. What coroutines and Deferreds log as they end then is dropped."""
    with mock.patch.object(LogPublisher, "__call__", lambda publisher, event: None):
        release()
        for _ in range(_ROUNDS):
            if not gc.collect():
                break


def _thaw() -> None:
    """Let collections look through all objects again, but for garbage: its errors would be those of a later test.

    That of this test too: a world that has ended may leave garbage among what is frozen.
    """
    collect_quietly(gc.unfreeze)
