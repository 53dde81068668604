"""The page /metrics: a thread makes most of it, and short turns of the reactor the lines of partitions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field, frozen
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from logd.broker.metrics.registry import BrokerRegistry
from logd.deferreds.locking import QueueLock
from logd.deferreds.sleeping import sleep

#: The last line of OpenMetrics' format.
_END = b"# EOF\n"
#: Fast: the page is compressed anew at each scrape.
_COMPRESSION = 1
_GZIP = zlib.MAX_WBITS | 16


@frozen
class _Collected:
    """The part of a registry that an encoder of prometheus_client reads."""

    collect: Callable[[], Iterator[Metric]]


@define(eq=False)
class MetricsPage(Resource):
    """Writes the metrics of a registry, one page at a time: a second scrape waits for the first."""

    isLeaf = True  # noqa: N815  # Twisted reads it
    _log = Logger()

    _reactor: Any
    _registry: CollectorRegistry
    _turn: QueueLock = field(factory=QueueLock, init=False)

    def __attrs_post_init__(self) -> None:
        Resource.__init__(self)

    def render_GET(self, request: Request) -> int:  # noqa: N802  # Twisted calls it
        """Answer GET, and HEAD too, which Twisted serves by this method."""
        writing = self._turn.run(lambda: Deferred.fromCoroutine(self._write(request)))
        request.notifyFinish().addErrback(lambda _: writing.cancel())
        writing.addErrback(self._failed, request)
        return NOT_DONE_YET

    async def _write(self, request: Request) -> None:
        encoder, content_type = choose_encoder(request.getHeader("accept") or "")
        registry = self._registry
        partitions = registry.partitions if isinstance(registry, BrokerRegistry) else None
        most: Any = _Collected(registry.without_partitions) if isinstance(registry, BrokerRegistry) else registry
        data = await self._in_thread(lambda: encoder(most))
        if partitions is not None:
            end = _END if data.endswith(_END) else b""
            parts = [data.removesuffix(end)]
            for text in partitions.texts():
                parts.append(text.encode())
                await sleep(self._reactor, 0)
            data = b"".join((*parts, end))
        if "gzip" in (request.getHeader("accept-encoding") or "").lower():
            data = await self._in_thread(lambda: _compressed(data))
            request.setHeader(b"content-encoding", b"gzip")
        request.setHeader(b"content-type", content_type.encode())
        request.setHeader(b"content-length", str(len(data)).encode())
        request.write(data)
        request.finish()

    def _in_thread(self, work: Callable[[], bytes]) -> Deferred[bytes]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)

    def _failed(self, failure: Failure, request: Request) -> None:
        if failure.check(CancelledError):  # the client has gone
            return
        self._log.failure("the metrics could not be written", failure)
        request.setResponseCode(500)
        request.finish()


def metrics_page(registry: CollectorRegistry) -> Resource:
    """Return the page of metrics in Prometheus' format."""
    # Imported here: a program may still have to choose a reactor.
    from twisted.internet import reactor

    return MetricsPage(reactor, registry)


def _compressed(data: bytes) -> bytes:
    """Return ``data`` in gzip's format; the interpreter's lock is free meanwhile."""
    packer = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, _GZIP)
    return packer.compress(data) + packer.flush()
