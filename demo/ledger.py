"""What was published, partition by partition: how many, how large, and a digest that depends on the order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from demo.records import fingerprint


@define
class Page:
    """One partition's account. The digest is SHA-256 over each message's fingerprint, in order."""

    messages: int = 0
    size: int = 0
    _digest: Any = field(factory=hashlib.sha256)

    def add(self, payloads: Iterable[bytes]) -> None:
        """Enter messages, in order."""
        pieces = []
        for payload in payloads:
            pieces.append(fingerprint(payload))
            self.messages += 1
            self.size += len(payload)
        self._digest.update(b"".join(pieces))

    def to_json(self) -> dict[str, Any]:
        """The account as it stands."""
        return {"messages": self.messages, "bytes": self.size, "sha256": self._digest.hexdigest()}


@define
class Ledger:
    """The pages of all topics."""

    _pages: dict[str, Page] = field(factory=dict)

    def page(self, topic: str, partition: int) -> Page:
        """The page of one partition; a new one when there is none."""
        return self._pages.setdefault(f"{topic}-{partition}", Page())

    @property
    def messages(self) -> int:
        """How many in all."""
        return sum(page.messages for page in self._pages.values())

    @property
    def size(self) -> int:
        """How many bytes of payload in all."""
        return sum(page.size for page in self._pages.values())

    def to_json(self) -> dict[str, Any]:
        """Every page by its partition's name."""
        return {name: page.to_json() for name, page in sorted(self._pages.items())}
