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
    """Freeze the objects of other tests for good, so that no collection looks through them.

    What there is now is modules and what they hold, and the few objects of an earlier test that something still holds.
    To look for garbage among them later finds next to none, and takes a second and more at the end of a suite.
    """
    gc.collect()
    gc.freeze()
    # Garbage of this test would otherwise be collected during a later one, which would be told its errors.
    case.addCleanup(collect_quietly)


def collect_quietly(release: Callable[[], object] = lambda: None) -> None:
    """Call ``release()``, and collect garbage. What coroutines and Deferreds log as they end then is dropped."""
    with mock.patch.object(LogPublisher, "__call__", lambda publisher, event: None):
        release()
        for _ in range(_ROUNDS):
            if not gc.collect():
                break
