"""A handler of the standard library's ``logging`` that publishes records and never blocks the application."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

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
        self._ended = False
        self._unreported = 0
        #: Records that were dropped or could not be delivered.
        self.dropped = 0

    def handle(self, record: logging.LogRecord) -> bool:
        """Skip the project's own records; for others see logging.Handler.

        This must come before the handler's lock: ``logging.shutdown`` holds the lock while it flushes and waits for the
        reactor's thread, which would itself wait for the lock to log a warning about an unavailable broker.
        """
        if record.name == OWN_LOGGER or record.name.startswith(OWN_LOGGER + "."):
            return False
        return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record, or drop it. Never raises, and never waits for a broker."""
        try:
            producer = self._begun()
            if producer is None or not producer.has_room:
                self._drop(1)
                return
            if self._unreported:
                count, self._unreported = self._unreported, 0
                self._publish(producer, self._report(count))
            self._publish(producer, record)
        except LogdError:
            self._drop(1)
        except Exception:
            self._drop(1)
            self.handleError(record)

    def flush(self) -> None:
        """Wait until the records so far are delivered, at most ``close_timeout`` seconds."""
        if self._producer is not None and not self._ended:
            with suppress(TimeoutError, PublishFailed):  # _undelivered has counted what failed
                self._producer.flush(self._close_timeout)

    def close(self) -> None:
        """Flush and disconnect, within ``close_timeout`` seconds or so. Later records are dropped."""
        ended, self._ended = self._ended, True
        if not ended and self._producer is not None:
            self._producer.close(self._close_timeout)
            if self._unreported:
                print(f"logd: {counted(self._unreported, 'log record')} for topic {self._topic} could not be published",
                      file=sys.stderr)  # fmt: skip
        super().close()

    def _begun(self) -> BlockingProducer | None:
        if self._producer is None and not self._ended:
            self._producer = BlockingProducer(self._brokers, on_error=self._undelivered, **self._settings)
        return None if self._ended else self._producer

    def _publish(self, producer: BlockingProducer, record: logging.LogRecord) -> None:
        producer.publish(self._topic, self.format(record).encode(errors="backslashreplace"))

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

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._unreported += count

    def _undelivered(self, topic: str, count: int, error: Exception) -> None:
        """Count published records that will not be delivered; on the reactor's thread."""
        self._drop(count)
