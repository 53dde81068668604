"""A handler of the standard library's ``logging`` that publishes records and never blocks the application."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from twisted.python.threadable import isInIOThread

from logd.client.blocking.clients import BlockingProducer
from logd.errors import LogdError, PublishFailed
from logd.plurals import counted

#: The project's own loggers. Their records are about publishing itself, so they are not published.
OWN_LOGGER = "logd"


class LogdHandler(logging.Handler):
    """Publishes each record as one message: the text that the handler's formatter makes of it, in UTF-8.

    It connects at the first record. While the producer's buffer is full (``buffer_bytes``), records are dropped.
    ``dropped`` counts them and those that could not be delivered; before the next record that is published, a warning
    with their number is. ``logging.shutdown``, which Python calls at exit, flushes and closes the handler.

    A child of ``os.fork`` has no thread that could publish for a handler that its parent has begun to use: it drops and
    counts the records, and says so when it ends. Make such handlers in the child.

    A program that runs Twisted's reactor itself uses logd.client.observer.TopicObserver instead.
    """

    def __init__(
        self,
        topic: str,
        brokers: str | Sequence[str | tuple[str, int]] = "127.0.0.1:6667",
        *,
        level: int | str = logging.NOTSET,
        close_timeout: float = 5.0,
        **settings: Any,
    ) -> None:
        """Publish to ``topic`` of the cluster that ``brokers`` belong to.

        ``close_timeout``: the most seconds that ``flush`` and ``close`` wait for deliveries. Other settings are those
        of a Producer; by default ``acks`` is 1 and ``linger`` 0.05 seconds. A setting that is not allowed raises
        ConfigurationError at the first record, which ``handleError`` shows.
        """
        super().__init__(level)
        self._topic = topic
        self._brokers = brokers
        self._settings = {"acks": 1, "linger": 0.05, **settings}
        self._close_timeout = close_timeout
        self._producer: BlockingProducer | None = None
        self._process = os.getpid()
        self._ended = False
        #: Records dropped by a thread that has the handler's lock, and by the reactor's thread, which must not wait for
        #: it: two numbers, so that neither of two threads overwrites what the other has counted.
        self._dropped_with_lock = 0
        self._dropped_without_lock = 0
        #: Records of them that a published record has reported.
        self._reported = 0

    @property
    def dropped(self) -> int:
        """Return the number of records that were dropped or could not be delivered."""
        return self._dropped_with_lock + self._dropped_without_lock

    @property
    def _unreported(self) -> int:
        return self.dropped - self._reported

    def handle(self, record: logging.LogRecord) -> bool:
        """Skip the project's own records; for others see logging.Handler.

        This must come before the handler's lock: ``logging.shutdown`` holds the lock while it flushes and waits for the
        reactor's thread, which would itself wait for the lock to log a warning about an unavailable broker. A record of
        another logger on that thread, such as Twisted's own, is dropped while another thread has the lock.
        """
        if record.name == OWN_LOGGER or record.name.startswith(OWN_LOGGER + "."):
            return False
        lock = self.lock
        if lock is None or not isInIOThread():
            return bool(super().handle(record))
        if not lock.acquire(blocking=False):
            self._dropped_without_lock += 1
            return False
        try:
            return bool(super().handle(record))
        finally:
            lock.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record, or drop it. Never raises, and never waits for a broker."""
        try:
            producer = self._begun()
            if producer is None or not producer.has_room:
                self._dropped_with_lock += 1
                return
            message = self._encoded(record)
            count = self._unreported
            if count:
                producer.publish(self._topic, self._encoded_report(count))
                self._reported += count
            producer.publish(self._topic, message)
        except LogdError:
            self._dropped_with_lock += 1
        except Exception:
            self._dropped_with_lock += 1
            self.handleError(record)

    def flush(self) -> None:
        """Wait until the records so far are delivered, at most ``close_timeout`` seconds."""
        if self._producer is not None and not self._ended and not self._forked:
            with suppress(TimeoutError, PublishFailed):  # _undelivered has counted what failed
                self._producer.flush(self._close_timeout)

    def close(self) -> None:
        """Flush and disconnect, within ``close_timeout`` seconds or so. Later records are dropped."""
        ended, self._ended = self._ended, True
        if not ended and self._producer is not None:
            if not self._forked:
                self._producer.close(self._close_timeout)
            if self._unreported:
                print(f"logd: {counted(self._unreported, 'log record')} for topic {self._topic} could not be published",
                      file=sys.stderr)  # fmt: skip
        super().close()

    @property
    def _forked(self) -> bool:
        """Return whether the producer is that of a process of which this one was forked."""
        return self._producer is not None and self._process != os.getpid()

    def _begun(self) -> BlockingProducer | None:
        if self._producer is None and not self._ended:
            self._process = os.getpid()
            self._producer = BlockingProducer(self._brokers, on_error=self._undelivered, **self._settings)
        return None if self._ended or self._forked else self._producer

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode(errors="backslashreplace")

    def _encoded_report(self, count: int) -> bytes:
        report = self._report(count)
        try:
            return self._encoded(report)
        except Exception:  # a formatter may ask for fields that a filter gives to the application's records alone
            return report.getMessage().encode()

    def _report(self, count: int) -> logging.LogRecord:
        return logging.makeLogRecord(
            {
                "name": __name__,
                "levelno": logging.WARNING,
                "levelname": "WARNING",
                "msg": "%s could not be published: the buffer was full, or the broker did not take them",
                "args": (counted(count, "log record"),),
            }
        )

    def _undelivered(self, topic: str, count: int, error: Exception) -> None:
        """Count published records that will not be delivered; on the reactor's thread."""
        self._dropped_without_lock += count
