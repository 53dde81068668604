"""A transport without a descriptor, such as TLS, as a consumer for one file transfer after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IConsumer, IPushProducer
from zope.interface import implementer


@implementer(IConsumer, IPushProducer)
@define(eq=False)
class PacedConsumer:
    """One push producer of the transport for as long as the connection lasts, and a consumer for who writes to it now.

    A transport looks at how much it has buffered only when it is written to, and then tells the producer registered at
    that moment. Were each transfer to register itself, those that end with their first write would never be told, and
    a peer that does not read would have the broker buffer all that it asked for.
    """

    _transport: Any
    _on_pause: Callable[[], None]
    #: Called when the transport takes more and no transfer is under way that was told so instead.
    _on_resume: Callable[[], None]
    _producer: Any = field(default=None, init=False)
    paused: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Register with the transport."""
        self._transport.registerProducer(self, True)

    def end(self) -> None:
        """Let the transport go, so that it can be closed: over TLS it loses its last bytes otherwise."""
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
        """See IConsumer; for push producers, and not while ``paused``."""
        self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802
        """See IConsumer."""
        self._producer = None

    def write(self, data: bytes) -> None:
        """See IConsumer."""
        self._transport.write(data)
