"""A consumer for successive file transfers over a transport without a descriptor, such as TLS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IConsumer, IPushProducer
from zope.interface import implementer


@implementer(IConsumer, IPushProducer)
@define(eq=False)
class PacedConsumer:
    """The transport's one push producer while the connection lasts, and the consumer of the current transfer.

    A transport checks its buffer only when it is written to, and then pauses the producer registered at that moment. If
    each transfer registered itself, those that end with their first write would never be paused, and the broker would
    buffer everything that a peer requests but does not read.
    """

    _transport: Any
    _on_pause: Callable[[], None]
    #: Called when the transport takes more bytes and there is no current transfer to resume.
    _on_resume: Callable[[], None]
    _producer: Any = field(default=None, init=False)
    paused: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Register with the transport."""
        self._transport.registerProducer(self, True)

    def end(self) -> None:
        """Unregister from the transport, so that it can be closed: over TLS the last bytes are lost otherwise."""
        if not self._over:
            self._over = True
            self._transport.unregisterProducer()

    def pauseProducing(self) -> None:  # noqa: N802
        self.paused = True
        self._on_pause()
        if self._producer is not None:
            self._producer.pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802
        self.paused = False
        if self._producer is not None:
            self._producer.resumeProducing()
        else:
            self._on_resume()

    def stopProducing(self) -> None:  # noqa: N802
        self._over = True
        if self._producer is not None:
            self._producer.stopProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802
        """See IConsumer. Takes push producers only, and not while ``paused``."""
        self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802
        """See IConsumer."""
        self._producer = None

    def write(self, data: bytes) -> None:
        """See IConsumer."""
        self._transport.write(data)
