"""What consumers note of each message that they have handled: its id and a fingerprint, in a file a partition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from attrs import define, field, frozen

_RECORD = Struct(">q8s")
RECORD_BYTES = _RECORD.size


def fingerprint(payload: bytes) -> bytes:
    """Eight bytes that tell one message from another."""
    return hashlib.blake2b(payload, digest_size=8).digest()


def encode(messages: Iterable[tuple[int, bytes]]) -> bytes:
    """The records of messages, given by id and payload."""
    return b"".join([_RECORD.pack(position, fingerprint(payload)) for position, payload in messages])


def noted(folder: Path) -> int:
    """How many records there are, of messages handled twice as well."""
    return sum(path.stat().st_size for path in folder.glob("*/*.records")) // RECORD_BYTES


@frozen
class Account:
    """What one partition's records say together."""

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
        """Enter a consumer's file; a record that was being written when it was killed is none."""
        known = self.fingerprints
        for position, each in _RECORD.iter_unpack(data[: len(data) // RECORD_BYTES * RECORD_BYTES]):
            before = known.setdefault(position, each)
            self.differing += before != each
        self.again += len(data) // RECORD_BYTES

    def account(self) -> Account:
        """Everything, in the order of the log."""
        known = self.fingerprints
        digest = hashlib.sha256(b"".join([known[position] for position in sorted(known)]))
        return Account(len(known), digest.hexdigest(), self.again - len(known), self.differing)


def gather(folder: Path) -> dict[str, Account]:
    """The accounts of all partitions, by name, from the records of all consumers."""
    found: dict[str, _Gathered] = {}
    for path in sorted(folder.glob("*/*.records")):
        found.setdefault(path.stem, _Gathered()).add(path.read_bytes())
    return {name: each.account() for name, each in sorted(found.items())}
