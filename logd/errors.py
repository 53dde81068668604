"""Words for what goes wrong: one exception class for each error code of the wire, and some that stay in a process."""

from __future__ import annotations

from typing import ClassVar


class LogdError(Exception):
    """Base of every error that logd raises on purpose; its text names the thing and, where there is one, the remedy."""


class WireError(LogdError):
    """An error that a broker can answer; ``code`` is its int16 on the wire (docs/protocol.md lists them)."""

    code: ClassVar[int] = -1
    #: Whether the same request may succeed later without being changed.
    retriable: ClassVar[bool] = False


class UnknownError(WireError):
    """The broker failed in a way it has no code for; its log holds the traceback."""

    code = -1
    retriable = True


class OffsetOutOfRange(WireError):
    """The offset is before the log's start or past its end."""

    code = 1


class InvalidMessage(WireError):
    """A message set was refused: a checksum, a length or a magic that does not hold."""

    code = 2


class WrongPartition(WireError):
    """The broker that was asked does not store that partition."""

    code = 3
    retriable = True


class InvalidFetchSize(WireError):
    """A fetch asked for a negative number of bytes."""

    code = 4


class UnsupportedVersion(WireError):
    """The request's type is known but its version is not; the peers' releases are too far apart."""

    code = 100


class UnknownTopic(WireError):
    """There is no such topic, and nothing asked for it to be created."""

    code = 101
    retriable = True


class TopicExists(WireError):
    """A topic of that name is there already."""

    code = 102


class InvalidTopic(WireError):
    """A topic's name, number of partitions or settings are not allowed."""

    code = 103


class MessageTooLarge(WireError):
    """One message is above the topic's limit, or a set is above the frame limit."""

    code = 104


class PipelineBroken(WireError):
    """An earlier set of this partition on this connection was refused: send that one again, marked as a restart."""

    code = 105
    retriable = True


class PartitionOffline(WireError):
    """The partition cannot be served; the text says why (damage, or a disk that failed)."""

    code = 106
    retriable = True


class StaleLeaderEpoch(WireError):
    """The request carries another leader epoch than the broker's: read the metadata again."""

    code = 107
    retriable = True


class NotEnoughReplicas(WireError):
    """More copies were asked for than the partition has in-sync replicas."""

    code = 108
    retriable = True


class RequestTimedOut(WireError):
    """The broker could not finish within the request's time; what was appended stays appended."""

    code = 109
    retriable = True


class StorageFull(WireError):
    """The broker's disk has no room for an append; nothing of the set was kept."""

    code = 110
    retriable = True


class BrokerStopping(WireError):
    """The broker is shutting down and takes no new work."""

    code = 111
    retriable = True


class TopicCreationDisabled(WireError):
    """The topic does not exist and this broker's settings do not allow clients to create it."""

    code = 112


class AdministrationDisabled(WireError):
    """This broker's settings do not allow clients to delete topics or to repair logs."""

    code = 116


class InvalidRequest(WireError):
    """The frame is well formed, but a value in it is out of its range."""

    code = 113


class CoordinationUnavailable(WireError):
    """The coordination tree cannot be reached now, so that nothing can be created or deleted."""

    code = 114
    retriable = True


class NoLeader(WireError):
    """No broker that stores the partition is live."""

    code = 115
    retriable = True


#: Every error that has a code, by that code: the one registry both ways.
ERRORS_BY_CODE: dict[int, type[WireError]] = {
    cls.code: cls
    for cls in (
        UnknownError,
        OffsetOutOfRange,
        InvalidMessage,
        WrongPartition,
        InvalidFetchSize,
        UnsupportedVersion,
        UnknownTopic,
        TopicExists,
        InvalidTopic,
        MessageTooLarge,
        PipelineBroken,
        PartitionOffline,
        StaleLeaderEpoch,
        NotEnoughReplicas,
        RequestTimedOut,
        StorageFull,
        BrokerStopping,
        TopicCreationDisabled,
        InvalidRequest,
        CoordinationUnavailable,
        NoLeader,
        AdministrationDisabled,
    )
}


def error_for_code(code: int, text: str = "") -> WireError:
    """Return a new exception for a non-zero wire code; a code of a later release becomes UnknownError that names it."""
    cls = ERRORS_BY_CODE.get(code)
    if cls is None:
        return UnknownError(f"error code {code} is not known to this release" + (f": {text}" if text else ""))
    return cls(text or (cls.__doc__ or "").strip())


class ProtocolViolation(LogdError):
    """A peer sent bytes that are no frame of this protocol: the connection has to be closed."""


class CorruptMessage(LogdError):
    """Stored bytes fail their checksum or make no message; they are never delivered.

    ``position`` is the byte offset in the partition's log of the entry that is wrong.
    """

    def __init__(self, reason: str, position: int = -1) -> None:
        super().__init__(f"{reason} (at position {position})" if position >= 0 else reason)
        self.reason = reason
        self.position = position


class WrapperTooLarge(LogdError):
    """A compressed wrapper would become more than a setting of its reader allows; nothing in it is damaged.

    ``setting`` is the name of that setting. The wrapper lies from ``position`` to ``end`` of the partition's log, so
    that reading may go on at ``end``.
    """

    def __init__(self, setting: str, limit: int, position: int = -1, end: int = -1, where: str = "") -> None:
        what = "messages" if setting.lower().endswith("messages") else "bytes"
        text = f"{where}the compressed wrapper" + (f" from position {position} to {end}" if position >= 0 else "")
        super().__init__(
            f"{text} would become more than {limit} {what} ({setting} = {limit}); it is not damaged: "
            f"raise {setting}" + (f", or go on behind it, at position {end}" if position >= 0 else "")
        )
        self.setting = setting
        self.limit = limit
        self.position = position
        self.end = end


class ConfigurationError(LogdError):
    """A setting is unknown or its value is not allowed; the text names the key, the value and what is allowed."""


class MissingPackage(LogdError):
    """A package that is needed for this alone is not installed for the Python that runs it."""


class DataDirectoryError(LogdError):
    """A data directory cannot be used: locked by another broker, of another format, or not writable."""


class BrokerUnavailable(LogdError):
    """No connection to a broker could be had, or it was lost before the answer came."""


class CannotConnect(BrokerUnavailable):
    """No connection to a broker could be made: none runs at the address, or it cannot be reached."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        #: The part of the text that says why, without the address.
        self.reason = reason or text


class ProducerBufferFull(LogdError):
    """More sends wait for room than the producer's settings allow: wait for ``ready()`` between sends."""


class DeliveryFailed(LogdError):
    """A message set could not be delivered within the producer's delivery timeout; ``__cause__`` is the last error."""


class ClientClosed(LogdError):
    """The producer, consumer or stream was closed."""


class PartitionLost(LogdError):
    """A position could not be stored: the partition belongs to another consumer of the group by now."""
