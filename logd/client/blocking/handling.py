"""Handling of a stream's messages by a function that blocks, in the thread that reads the stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from random import random
from typing import Any

from twisted.internet.defer import Deferred

from logd.client.consumer.handling import HandlingSettings, MisusedHandler, check_handler
from logd.client.setting_names import read_settings
from logd.errors import ConfigurationError
from logd.protocol.message import Message

#: Seconds after which a waiting thread looks whether its stream was closed.
LOOK_SECONDS = 0.2


class BlockingHandling:
    """The retries of one call of ``BlockingStream.handle``."""

    def __init__(
        self,
        function: Callable[[Message], Any],
        add_letter: Callable[[Message, BaseException, int], None] | None,
        is_closed: Callable[[], bool],
        settings: dict[str, Any],
    ) -> None:
        """Raises ConfigurationError for a setting that is not allowed for one thread, and for a generator."""
        check_handler(function)
        (mine,) = read_settings(settings, HandlingSettings)
        if mine.concurrency != 1 or mine.timeout:
            raise ConfigurationError("concurrency and timeout are not for code that blocks: one thread handles all")
        self._function = function
        self._add_letter = add_letter
        self._is_closed = is_closed
        self._settings: HandlingSettings = mine

    def handle(self, message: Message) -> bool:
        """Handle a message, in the end as a dead letter; return False if the stream was closed before that."""
        attempts = 0
        backoff = self._settings.backoff(random)
        while True:
            attempts += 1
            try:
                self._call(message)
                return True
            except MisusedHandler:
                raise
            except Exception as error:
                failure = error
            if self._is_closed():
                return False
            if attempts > self._settings.retries:
                if self._add_letter is None:
                    raise failure
                self._add_letter(message, failure, attempts)
                return True
            if not self._wait(backoff.next()):
                return False

    def _call(self, message: Message) -> None:
        result = self._function(message)
        if isawaitable(result) or isinstance(result, Deferred) or isasyncgen(result) or isgenerator(result):
            if iscoroutine(result):
                result.close()
            raise MisusedHandler(
                f"the handler returned {type(result).__name__}, which nothing here waits for: "
                "it has to be a function that blocks (coroutines are for logd.aio and logd.Consumer)"
            )

    def _wait(self, seconds: float) -> bool:
        """Wait before the next try; return False once the stream is closed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._is_closed():
                return False
            time.sleep(min(left, LOOK_SECONDS))
        return not self._is_closed()
