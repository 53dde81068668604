"""Tools of the mutations: several patches at a time, a function replaced everywhere, and a test's outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from twisted.trial.reporter import TestResult
from twisted.trial.runner import TestLoader


@contextmanager
def all_of(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    """Apply all of the patches."""
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


@contextmanager
def replaced_everywhere(function: Callable[..., Any], replacement: Callable[..., Any]) -> Iterator[None]:
    """Replace a function in its own module and in every loaded one that has imported it by its name.

    Raises AssertionError if no module has it.
    """
    name = function.__name__
    modules = [module for module in tuple(sys.modules.values()) if getattr(module, name, None) is function]
    assert modules, f"no module has {name}"
    with all_of(*(mock.patch.object(module, name, replacement) for module in modules)):
        yield


def problems_of(name: str) -> str:
    """Run one test, by its dotted name, in this process; return its errors and failures, "" if it passes."""
    result = TestResult()
    TestLoader().loadByName(name).run(result)
    problems: list[tuple[Any, Any]] = [*result.errors, *result.failures]
    return "\n".join(f"{failure.type.__name__}: {failure.value}" for _, failure in problems)
