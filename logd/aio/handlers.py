"""Handlers of messages that are functions of asyncio: what they return is awaited in a task of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from inspect import isasyncgen, isawaitable
from typing import Any

from twisted.internet.defer import Deferred

from logd.aio.futures import deferred_of
from logd.client.consumer.handling import Handler, check_handler
from logd.protocol.message import Message


def handler_of(loop: asyncio.AbstractEventLoop, function: Handler) -> Callable[[Message], Any]:
    """Return a handler for ``MessageStream.handle``: awaitables that ``function`` returns run as tasks of ``loop``.

    They run with the context variables of the caller. Raises ConfigurationError for a generator.
    """
    check_handler(function)
    context = copy_context()

    def handle(message: Message) -> Any:
        result = context.copy().run(function, message)
        if not isawaitable(result) or isasyncgen(result) or isinstance(result, Deferred):
            return result
        return deferred_of(loop, result)  # a handler that is cancelled has failed

    return handle
