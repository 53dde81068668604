"""The open batch of a partition: sets are added to it until it is full or its linger time is over."""

from __future__ import annotations

from collections.abc import Callable

from logd.client.producer.batch import ProducerBatch
from logd.client.producer.pending_send import PendingSend
from logd.client.settings import ProducerSettings
from logd.interfaces import Clock, Timer


class BatchAccumulator:
    """The open batch of one partition.

    ``sealed(batch)`` is called with each batch that is complete, ``lingered()`` when the linger time of one is over.
    """

    __slots__ = ("_clock", "_linger", "_lingered", "_sealed", "_settings", "_where", "due", "open")

    def __init__(
        self,
        where: tuple[str, int],
        settings: ProducerSettings,
        clock: Clock,
        sealed: Callable[[ProducerBatch], None],
        lingered: Callable[[], None],
    ) -> None:
        #: The batch being filled, None while no set waits.
        self.open: ProducerBatch | None = None
        #: True when the open batch is to leave without lingering any longer.
        self.due = False
        self._where = where
        self._settings = settings
        self._clock = clock
        self._sealed = sealed
        self._lingered = lingered
        self._linger: Timer | None = None

    @property
    def ready(self) -> bool:
        """Return whether there is an open batch that may leave although it is not full."""
        return self.open is not None and (self.due or self._settings.linger == 0)

    def add(self, pieces: list[tuple[bytes, int]], codec: str, send: PendingSend) -> None:
        """Add the encoded sets of a send, in order, and seal each batch that they complete."""
        settings = self._settings
        for piece, messages in pieces:
            batch = self.open
            if batch is not None and (
                batch.codec != codec
                or batch.bytes + len(piece) > settings.batch_bytes
                or batch.messages + messages > settings.batch_messages
            ):
                self.seal()
                batch = None
            if batch is None:
                batch = self.open = ProducerBatch(*self._where, codec)
                if settings.linger > 0:
                    self._linger = self._clock.callLater(settings.linger, self._time_over)
            batch.add(piece, messages, send)
            if batch.messages >= settings.batch_messages or batch.bytes >= settings.batch_bytes:
                self.seal()

    def seal(self) -> None:
        """Complete the open batch as it is, if there is one."""
        batch = self.open
        if batch is not None:
            self.drop()
            self._sealed(batch)

    def drop(self) -> None:
        """Forget the open batch, which is empty or was taken."""
        self.open = None
        self.due = False
        if self._linger is not None:
            linger, self._linger = self._linger, None
            if linger.active():
                linger.cancel()

    def _time_over(self) -> None:
        self._linger = None
        self._lingered()
