"""The workload of a bench: the number and shape of its messages, and the calls that give them to the producer."""

from __future__ import annotations

from attrs import frozen

from logd.errors import ConfigurationError
from logd.protocol.codecs import BATCH_CODEC_NUMBERS, CODEC_NUMBERS

#: Bytes of a plain message beside its payload.
OVERHEAD_BYTES = 9
#: The ways to give messages to a producer: ``send`` with a set of ``batch`` messages, ``send`` with one message and a
#: Deferred for each, and ``publish`` with one message and no Deferred.
CALLS = ("set", "send", "publish")
#: A producer's formats: an entry for each message, or batches with one checksum.
FORMATS = ("plain", "batch")
#: The compressions of each format.
CODECS = {"plain": tuple(CODEC_NUMBERS), "batch": tuple(BATCH_CODEC_NUMBERS)}
#: The loops under the clients: Twisted's reactor, or asyncio's event loop with the clients of ``logd.aio``.
LOOPS = ("reactor", "asyncio")
#: A message of this many bytes may be refused under the default limits of broker and producer, 1,000,000.
LARGE_BYTES = 990_000


@frozen
class Workload:
    """``messages`` of ``size`` bytes of payload each, over ``partitions`` of one topic and ``connections`` to it.

    ``call`` is one of CALLS; each call gets ``batch`` messages, which is 1 unless ``call`` is ``set``. With ``merge``,
    the default of producers, waiting sets share a request; without it each set is a request of its own.

    Raises ConfigurationError for a value that is not allowed.
    """

    messages: int
    size: int = 200
    batch: int = 50
    acks: int = 1
    merge: bool = True
    call: str = "set"
    compression: str = "none"
    format: str = "plain"
    partitions: int = 1
    connections: int = 1
    loop: str = "reactor"

    def __attrs_post_init__(self) -> None:
        for name in ("messages", "size", "batch", "partitions", "connections"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} = {getattr(self, name)} is not allowed; allowed is 1 or more")
        for name, allowed in (
            ("call", CALLS),
            ("format", FORMATS),
            ("compression", CODECS.get(self.format, ())),
            ("loop", LOOPS),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"{name} = {getattr(self, name)!r} is not allowed; allowed is one of {', '.join(allowed)}"
                )
        if self.call != "set" and self.batch != 1:
            raise ConfigurationError(f"batch = {self.batch} is not allowed with call = {self.call!r}; allowed is 1")

    @property
    def entry_bytes(self) -> int:
        """Bytes of one plain message on the wire and on disk."""
        return self.size + OVERHEAD_BYTES

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages on the wire, were they plain."""
        return self.messages * self.entry_bytes
