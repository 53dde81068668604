"""The open batch of a partition: messages are added to it until it is full or its linger time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logd.client.producer.batches.batch import ProducerBatch
from logd.client.producer.batches.pieces import BatchPiece
from logd.client.producer.formats import Format, TopicFormats, entries_codec
from logd.client.producer.pending_send import PendingSend
from logd.client.producer.unfinished import Unfinished
from logd.client.settings import ProducerSettings
from logd.interfaces import Clock, Timer


class BatchAccumulator:
    """The open batch of one partition.

    ``opened()`` is called for each batch that is begun, ``sealed(batch)`` for each that is complete, and ``lingered()``
    when the linger time of one is over.
    """

    __slots__ = (
        *(
            "_clock",
            "_closing",
            "_codec",
            "_linger",
            "_lingered",
            "_most",
            "_opened",
            "_sealed",
            "_settings",
            "_unfinished",
            "_where",
        ),
        *("due", "form", "forms", "open"),
    )

    def __init__(
        self,
        where: tuple[str, int],
        forms: TopicFormats,
        settings: ProducerSettings,
        clock: Clock,
        unfinished: Unfinished,
        opened: Callable[[], None],
        sealed: Callable[[ProducerBatch], None],
        lingered: Callable[[], None],
    ) -> None:
        #: The batch being filled, None while no message waits.
        self.open: ProducerBatch | None = None
        #: The time from which on no message joins it (clock's seconds).
        self._closing = 0.0
        #: True when the open batch is to leave without lingering any longer.
        self.due = False
        #: The format of the next batch.
        self.form = forms.decide(where[0])
        self.forms = forms
        self._where = where
        self._settings = settings
        self._clock = clock
        self._unfinished = unfinished
        self._opened = opened
        self._sealed = sealed
        self._lingered = lingered
        self._linger: Timer | None = None
        self._most = settings.batch_messages
        self._codec = settings.compression

    @property
    def ready(self) -> bool:
        """Return whether there is an open batch that may leave although it is not full."""
        return self.open is not None and (self.due or self._settings.linger == 0)

    @property
    def closed(self) -> bool:
        """Return whether the open batch takes no further messages, as they would fail too soon with its first one."""
        return self._clock.seconds() > self._closing

    def with_room(self, messages: int, size: int) -> ProducerBatch:
        """Return the open batch, or a new one where it has no room for messages of ``size`` bytes in all."""
        batch = self.open
        if batch is not None and (
            batch.encoded
            or self.closed
            or batch.bytes + size > self._settings.batch_bytes
            or len(batch.records) + messages > min(self._most, batch.form.most_messages)
        ):
            self.seal()
            batch = None
        return self._begin(self._codec) if batch is None else batch

    def change(self, form: Format) -> None:
        """Begin the next batch in another format."""
        self.seal()
        self.form = form
        codec = self._settings.compression
        self._codec = codec if form.by_number else entries_codec(codec)

    def seal_full(self) -> None:
        """Complete the open batch if it is full."""
        batch = self.open
        if batch is not None and (batch.messages >= self._most or batch.bytes >= self._settings.batch_bytes):
            self.seal()

    def add(self, pieces: Iterable[BatchPiece], send: PendingSend) -> None:
        """Add the messages of a send, in order, and seal each batch that they complete."""
        for records, size in pieces:
            self.with_room(len(records), size).add(records, size, send)
            self.seal_full()

    def add_encoded(self, pieces: Iterable[tuple[bytes, int]], send: PendingSend) -> None:
        """Add sets that came compressed; see ``add``."""
        for data, messages in pieces:
            batch = self.open
            if batch is not None and (
                not batch.encoded
                or batch.given
                or self.closed
                or batch.bytes + len(data) > self._settings.batch_bytes
                or batch.messages + messages > self._most
            ):
                self.seal()
                batch = None
            if batch is None:
                batch = self._begin("none")
            batch.add_encoded(data, messages, send)
            self.seal_full()

    def add_set(self, message_set: bytes, send: PendingSend) -> None:
        """Add a set of ``send_set``; batches of such sets hold nothing else."""
        batch = self.open
        if batch is not None and (not batch.given or batch.bytes + len(message_set) > self._settings.batch_bytes):
            self.seal()
            batch = None
        if batch is None:
            batch = self._begin("none")
        batch.add_set(message_set, send)
        self.seal_full()

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

    def _begin(self, codec: str) -> ProducerBatch:
        settings = self._settings
        now = self._clock.seconds()
        self._closing, deadline = now + settings.joining_seconds, now + settings.delivery_timeout
        batch = self.open = ProducerBatch(*self._where, self.form, codec, self._unfinished, deadline)
        self._unfinished.begin(batch)
        if settings.linger > 0:
            self._linger = self._clock.callLater(settings.linger, self._time_over)
        else:
            self._opened()
        return batch

    def _time_over(self) -> None:
        self._linger = None
        self._lingered()
