"""The implementations of the loops; every test of the loops runs on each of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, settings
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.implementation import compiled_loops
from logd.protocol.loops import python

try:
    compiled_loops()  # those of another version are not tested, since they are not used either
    from logd.protocol.loops import compiled
except ImportError as error:
    IMPLEMENTATIONS: Mapping[str, ModuleType] = {"python": python}
    #: The reason why the compiled loops are not tested; None where they are.
    NOT_COMPILED: str | None = f"the compiled loops are not built here, or cannot be used: {error}"
else:
    IMPLEMENTATIONS = {"python": python, "compiled": compiled}
    NOT_COMPILED = None

#: Settings of the properties, each of which is a test of several classes.
properties = settings(deadline=None, suppress_health_check=[HealthCheck.differing_executors])


class LoopsTestCase(SynchronousTestCase):
    """Tests that call only the loops, by ``self.loops``, and no other part of an implementation."""

    loops: Any = python


def on_each_implementation(tests: type[LoopsTestCase]) -> type[LoopsTestCase]:
    """Decorate a class of tests: add one more class to its module for each further implementation.

    Where the compiled one is not built, its class is skipped with the reason.
    """
    module = sys.modules[tests.__module__]
    if NOT_COMPILED is not None:
        skipped = type(f"{tests.__name__}_compiled", (tests,), {"skip": NOT_COMPILED, "__module__": tests.__module__})
        setattr(module, skipped.__name__, skipped)
    for name, implementation in IMPLEMENTATIONS.items():
        if implementation is not tests.loops:
            made = type(f"{tests.__name__}_{name}", (tests,), {"loops": implementation, "__module__": tests.__module__})
            setattr(module, made.__name__, made)
    return tests
