"""The records of handled messages: the id and a fingerprint of each, in one file for each consumer and partition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from attrs import define, field, frozen

_RECORD = Struct(">q8s")
RECORD_BYTES = _RECORD.size


def fingerprint(payload: bytes) -> bytes:
    """Return a hash of eight bytes, which tells one message from another."""
    return hashlib.blake2b(payload, digest_size=8).digest()


def encode(messages: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the records of messages, which are pairs of id and payload."""
    return b"".join([_RECORD.pack(position, fingerprint(payload)) for position, payload in messages])


def noted(folder: Path) -> int:
    """Return the number of records under ``folder``; a message that was handled twice counts twice."""
    return sum(path.stat().st_size for path in folder.glob("*/*.records")) // RECORD_BYTES


@frozen
class Account:
    """The account of one partition, from the records of all consumers.

    ``messages`` is the number of different ids, and ``sha256`` the digest of their fingerprints in order. ``again``
    counts repeated records, and ``differing`` those whose fingerprint is not that of the first record of the id.
    """

    messages: int
    sha256: str
    again: int
    differing: int


@define
class _Gathered:
    """The records of one partition."""

    fingerprints: dict[int, bytes] = field(factory=dict)
    again: int = 0
    differing: int = 0

    def add(self, data: bytes) -> None:
        """Add a consumer's file. An incomplete record at its end, of a consumer that was killed, is left out."""
        known = self.fingerprints
        for position, each in _RECORD.iter_unpack(data[: len(data) // RECORD_BYTES * RECORD_BYTES]):
            before = known.setdefault(position, each)
            self.differing += before != each
        self.again += len(data) // RECORD_BYTES

    def account(self) -> Account:
        """Return the account, with the digest in the order of the log."""
        known = self.fingerprints
        digest = hashlib.sha256(b"".join([known[position] for position in sorted(known)]))
        return Account(len(known), digest.hexdigest(), self.again - len(known), self.differing)


def gather(folder: Path) -> dict[str, Account]:
    """Return the account of every partition, by name, from the records of all consumers."""
    found: dict[str, _Gathered] = {}
    for path in sorted(folder.glob("*/*.records")):
        found.setdefault(path.stem, _Gathered()).add(path.read_bytes())
    return {name: each.account() for name, each in sorted(found.items())}
