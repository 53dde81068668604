"""Requests with a bound on the body: a longer one is never kept, neither in memory nor in a file."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

from twisted.web.server import Request

from logd.broker.security.page_quota import PageQuota
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.web.bounded_site import PageConnection

#: Bytes of a body. A schema of 256 KiB is at most twice as long as a string of JSON.
MOST_BODY_BYTES = 1 << 20
#: Bytes of a body that is refused which are read, so that the client sees the answer; then the connection is cut.
_MOST_DISCARDED = 16 << 20


class BoundedRequest(Request):
    """A request that is answered with 413 if its body is longer than MOST_BODY_BYTES."""

    _received = 0
    #: The user who asks, and that user's rights; None where no user is asked for.
    requester: Requester | None = None
    rights: Rights | None = None
    #: Counts what is used of quotas; None where there are none.
    quota: PageQuota | None = None

    def __init__(self, channel: Any, *arguments: Any, **named: Any) -> None:
        """Leave the body as it is: Twisted would take it apart, by MIME too, before anybody knows whose it is.

        Parts within parts of one megabyte hold up everything else for a minute.
        """
        super().__init__(channel, *arguments, parsePOSTFormSubmission=False, **named)  # type: ignore[no-untyped-call]

    def getHeader(self, key: Any) -> Any:  # noqa: N802  # Twisted's name
        """Return a header of the request, None without it; what is no UTF-8 in it is replaced where text is wanted.

        Twisted's raises an error for that, and whoever likes could fill the log with its traces.
        """
        if isinstance(key, bytes):
            return super().getHeader(key)
        value = super().getHeader(key.encode())
        return None if value is None else value.decode("utf-8", "replace")

    def gotLength(self, length: int | None) -> None:  # noqa: N802  # Twisted calls it
        """Keep the body in memory: Twisted would write a long one to a file."""
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802  # Twisted calls it
        """Keep a part of the body, unless there is too much already."""
        self._received += len(data)
        if self._received <= MOST_BODY_BYTES:
            super().handleContentChunk(data)  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        elif self._received > _MOST_DISCARDED:
            self.channel.forceAbortClient()

    @property
    def received_bytes(self) -> int:
        """The bytes of the request, near enough: the body, the path and the headers."""
        heads = [len(name) + len(value) for name, values in self.requestHeaders.getAllRawHeaders() for value in values]
        return self._received + len(self.uri) + sum(heads)

    def write(self, data: bytes) -> None:
        """Write a part of the answer, and count it."""
        super().write(data)  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        if self.quota is not None:
            self.quota.sent(len(data))

    def process(self) -> None:
        """Answer at once if the body was too long."""
        self._count_under_way()
        if self._received <= MOST_BODY_BYTES:
            super().process()  # type: ignore[no-untyped-call]  # as above
            return
        body = json.dumps({"error_code": 413, "message": f"the body is longer than {MOST_BODY_BYTES} bytes"}).encode()
        self.setResponseCode(413)
        self.setHeader(b"content-type", b"application/json")
        self.setHeader(b"content-length", str(len(body)).encode())
        self.write(body)
        self.finish()

    def _count_under_way(self) -> None:
        """Have the connection know that it is needed, until the request is answered or given up."""
        connection: Any = getattr(self.channel, "transport", None)
        if not isinstance(connection, PageConnection):
            return
        connection.under_way += 1

        def ended(_: object) -> None:
            connection.under_way -= 1

        self.notifyFinish().addBoth(ended)
