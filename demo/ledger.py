"""The account of the published messages: their number, bytes and digest for each partition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from demo.records import fingerprint


@define
class Page:
    """The account of one partition. Its digest is the SHA-256 of the messages' fingerprints, in order."""

    messages: int = 0
    size: int = 0
    _digest: Any = field(factory=hashlib.sha256)

    def add(self, payloads: Iterable[bytes]) -> None:
        """Add messages, in order."""
        pieces = []
        for payload in payloads:
            pieces.append(fingerprint(payload))
            self.messages += 1
            self.size += len(payload)
        self._digest.update(b"".join(pieces))

    def to_json(self) -> dict[str, Any]:
        """Return the account so far."""
        return {"messages": self.messages, "bytes": self.size, "sha256": self._digest.hexdigest()}


@define
class Ledger:
    """The pages of all topics."""

    _pages: dict[str, Page] = field(factory=dict)

    def page(self, topic: str, partition: int) -> Page:
        """Return the page of one partition, a new one if there is none."""
        return self._pages.setdefault(f"{topic}-{partition}", Page())

    @property
    def messages(self) -> int:
        """The number of messages in all partitions."""
        return sum(page.messages for page in self._pages.values())

    @property
    def size(self) -> int:
        """The bytes of payload in all partitions."""
        return sum(page.size for page in self._pages.values())

    def to_json(self) -> dict[str, Any]:
        """Return every page by its partition's name."""
        return {name: page.to_json() for name, page in sorted(self._pages.items())}
