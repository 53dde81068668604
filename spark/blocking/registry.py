"""A blocking client of a schema registry, for Spark's driver and workers: bounded waits, one answer at a time."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from attrs import field, frozen

from logd.avro.answers import (
    CONTENT_TYPE,
    MOST_ANSWER_BYTES,
    RegistryUnavailable,
    no_answer,
    read_answer,
)
from logd.checkedjson import excerpt
from logd.errors import ConfigurationError
from logd.net.credentials import basic
from logd.security.credentials import Credentials

#: Seconds, all attempts together, that a request to the registry may take.
TIMEOUT = 30.0
#: Seconds before the second attempt; each further wait is twice as long, up to the second number.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_PIECE = 64 << 10

#: Sends one GET: (settings, path, seconds) -> status and body. Raises OSError, HTTPException and ValueError.
Exchange = Callable[["RegistryAddress", str, float], tuple[int, bytes]]


def _trimmed(url: str) -> str:
    return url.strip().rstrip("/")


@frozen
class RegistryAddress:
    """The address of a registry, with user and password if it wants them; sent to the executors.

    Raises ConfigurationError for what is no URL of one.
    """

    url: str = field(converter=_trimmed, repr=False)
    timeout: float = TIMEOUT
    #: The user for a URL that names none.
    credentials: Credentials | None = None

    def __attrs_post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            sound = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
            _ = parts.port
        except ValueError:
            sound = False
        if not sound:
            raise ConfigurationError(
                f"the schema registry {self.shown[:200]!r} is no URL: write http://HOST:PORT, or https://HOST:PORT"
            )

    @property
    def shown(self) -> str:
        """The URL without user and password, for errors and files."""
        scheme, mark, rest = self.url.partition("://")
        place, slash, path = rest.partition("/")
        return f"{scheme}{mark}{place.rpartition('@')[2]}{slash}{path}"


def exchange(settings: RegistryAddress, path: str, seconds: float) -> tuple[int, bytes]:
    """Send one GET. See Exchange."""
    parts = urlsplit(settings.url)
    kind: type[http.client.HTTPConnection] = http.client.HTTPConnection
    more: dict[str, Any] = {}
    if parts.scheme == "https":
        kind, more = http.client.HTTPSConnection, {"context": ssl.create_default_context()}
    headers = {"Accept": f"{CONTENT_TYPE}, application/json"}
    if parts.username is not None:
        headers["Authorization"] = basic(unquote(parts.username), unquote(parts.password or ""))
    elif settings.credentials is not None:
        headers["Authorization"] = basic(settings.credentials.user, settings.credentials.password)
    deadline = time.monotonic() + seconds
    connection = kind(parts.hostname or "", parts.port, timeout=seconds, **more)
    try:
        connection.request("GET", f"{parts.path}{path}", headers=headers)
        response = connection.getresponse()
        pieces, size = [], 0
        while piece := response.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_ANSWER_BYTES:
                raise ValueError(f"more than {MOST_ANSWER_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the answer is not complete after {seconds:.0f} s")
        if response.length:
            raise ConnectionError("the connection ended in the middle of an answer")
        return response.status, b"".join(pieces)
    finally:
        connection.close()


@frozen
class BlockingRegistry:
    """Asks a registry. Each call fails with RegistryUnavailable after the settings' timeout.

    It fails with RegistryRefusal if the registry refuses.
    """

    settings: RegistryAddress
    exchange: Exchange = exchange
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def get(self, *parts: str, query: str = "") -> Any:
        """Return the JSON at the path of these parts. A registry that is away is asked again until the timeout."""
        path = "".join(f"/{quote(part, safe='')}" for part in parts) + query
        deadline = self.clock() + self.settings.timeout
        pause = _FIRST_PAUSE
        while True:
            left = max(deadline - self.clock(), 0.001)
            failed: Exception
            try:
                status, data = self.exchange(self.settings, path, left)
            except ValueError as error:
                raise RegistryUnavailable(f"{self._where(path)} answers what no registry does: {error}") from None
            except (OSError, http.client.HTTPException) as error:
                failed = no_answer(self.settings.shown, error)
            else:
                if status < 500:
                    return read_answer(self._where(path), status, data)
                failed = RegistryUnavailable(
                    f"the schema registry at {self.settings.shown} fails with HTTP status {status}: {excerpt(data)}"
                )
            if self.clock() + pause >= deadline:
                raise RegistryUnavailable(
                    f"{failed} It was asked for {self.settings.timeout:g} s; nothing was read or written. Start the "
                    "registry, or name another one, and run this again"
                ) from None
            self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _where(self, path: str) -> str:
        return f"{self.settings.shown}{path}"
