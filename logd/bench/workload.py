"""The workload of a bench, and its result."""

from __future__ import annotations

from attrs import asdict, frozen

from logd.errors import ConfigurationError

#: Bytes of a plain message beside its payload.
OVERHEAD_BYTES = 9


@frozen
class Workload:
    """``messages`` of ``size`` bytes of payload each, from or to one partition.

    ``send`` gets ``batch`` of them at a time. With ``merge``, the default of producers, waiting sets share a request;
    without it each set is a request of its own.
    """

    messages: int
    size: int = 200
    batch: int = 50
    acks: int = 1
    merge: bool = True

    def __attrs_post_init__(self) -> None:
        for name in ("messages", "size", "batch"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} = {getattr(self, name)} is not allowed; allowed is 1 or more")

    @property
    def entry_bytes(self) -> int:
        """Bytes of one message on the wire and on disk."""
        return self.size + OVERHEAD_BYTES

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages on the wire."""
        return self.messages * self.entry_bytes


@frozen
class Result:
    """A rate, and the limit of the machine for the same bytes in the same run."""

    bench: str
    messages: int
    size: int
    batch: int
    acks: int
    merge: bool
    seconds: float
    messages_per_second: float
    megabytes_per_second: float
    limit_megabytes_per_second: float
    limit_messages_per_second: float
    ratio_to_limit: float

    @classmethod
    def of(cls, bench: str, workload: Workload, seconds: float, limit: float) -> Result:
        """Return the result of a run; ``limit`` is in bytes a second, and a megabyte is a million bytes."""
        rate = workload.messages / seconds
        return cls(
            bench,
            workload.messages,
            workload.size,
            workload.batch,
            workload.acks,
            workload.merge,
            round(seconds, 3),
            round(rate),
            round(rate * workload.entry_bytes / 1e6, 1),
            round(limit / 1e6, 1),
            round(limit / workload.entry_bytes),
            round(rate * workload.entry_bytes / limit, 3),
        )

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)
