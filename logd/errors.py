"""The exceptions of logd: one class for each error code of the wire, and some that are not on the wire."""

from __future__ import annotations

from typing import ClassVar


class LogdError(Exception):
    """Base of every error that logd raises on purpose. The text names the object and, if there is one, the remedy."""


class WireError(LogdError):
    """An error that a broker can answer. ``code`` is the int16 on the wire; docs/protocol.md lists the codes."""

    code: ClassVar[int] = -1
    #: True if the same request may succeed later without a change.
    retriable: ClassVar[bool] = False


class UnknownError(WireError):
    """The broker failed in a way that has no error code; its log has the details."""

    code = -1
    retriable = True


class OffsetOutOfRange(WireError):
    """The offset is before the log's start or past its end."""

    code = 1


class InvalidMessage(WireError):
    """A message set was refused for a checksum mismatch, a wrong length or an unknown magic."""

    code = 2


class WrongPartition(WireError):
    """The broker does not store that partition."""

    code = 3
    retriable = True


class InvalidFetchSize(WireError):
    """A fetch asked for a negative number of bytes."""

    code = 4


class UnsupportedVersion(WireError):
    """The broker knows the request's type but not its version; the releases of the two sides are too far apart."""

    code = 100


class UnknownTopic(WireError):
    """The topic does not exist, and the request did not ask to create it."""

    code = 101
    retriable = True


class TopicExists(WireError):
    """A topic of that name exists already."""

    code = 102


class InvalidTopic(WireError):
    """A topic's name, number of partitions or settings are not allowed."""

    code = 103


class MessageTooLarge(WireError):
    """A message is above the topic's limit, or a set is above the frame limit."""

    code = 104


class PipelineBroken(WireError):
    """An earlier set for this partition on this connection was refused: send that set again, marked as a restart."""

    code = 105
    retriable = True


class PartitionOffline(WireError):
    """The partition cannot be served; the text gives the reason, such as damage or a failed disk."""

    code = 106
    retriable = True


class StaleLeaderEpoch(WireError):
    """The leader epoch of the request is not the broker's: read the metadata again."""

    code = 107
    retriable = True


class NotEnoughReplicas(WireError):
    """The partition has fewer in-sync replicas than the copies that were asked for, or than min.insync.replicas;
    `logd topics describe` shows them."""

    code = 108
    retriable = True


class RequestTimedOut(WireError):
    """The broker did not finish within the request's time; appended messages stay appended."""

    code = 109
    retriable = True


class StorageFull(WireError):
    """The broker's disk is full; nothing of the set was stored."""

    code = 110
    retriable = True


class BrokerStopping(WireError):
    """The broker is stopping and takes no new work."""

    code = 111
    retriable = True


class TopicCreationDisabled(WireError):
    """The topic does not exist and this broker's settings do not allow clients to create it."""

    code = 112


class AdministrationDisabled(WireError):
    """This broker's settings do not allow clients to delete topics or to repair logs."""

    code = 116


class InvalidRequest(WireError):
    """The request is well formed, but a value in it is out of range."""

    code = 113


class CoordinationUnavailable(WireError):
    """The broker cannot reach the coordination tree, or is not registered there, so no topic can be created or deleted.

    The broker's log and /health say why.
    """

    code = 114
    retriable = True


class NoLeader(WireError):
    """No broker that stores the partition is live."""

    code = 115
    retriable = True


class NoFetchSession(WireError):
    """The broker does not keep that fetch session, or not with that request: begin one anew, or fetch without."""

    code = 117
    retriable = True


class AuthenticationFailed(WireError):
    """The user is not known, or the password or the certificate is not the user's."""

    code = 118


class ClusterAuthorizationFailed(WireError):
    """The access rules do not let this user do that with the cluster (`logd acl test`, `logd acl add`)."""

    code = 119


class QuotaExceeded(WireError):
    """The user has as much as the user's quota allows, such as topics; rates are kept by waiting instead."""

    code = 120


class TopicAuthorizationFailed(WireError):
    """The access rules do not let this user do that with the topic (`logd acl test`, `logd acl add`)."""

    code = 121


class GroupAuthorizationFailed(WireError):
    """The access rules do not let this user do that with the group (`logd acl test`, `logd acl add`)."""

    code = 122


class NotLeader(WireError):
    """Another broker leads the partition, or none does: read the metadata again."""

    code = 123
    retriable = True


#: The error classes by code.
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
        NoFetchSession,
        AuthenticationFailed,
        ClusterAuthorizationFailed,
        QuotaExceeded,
        TopicAuthorizationFailed,
        GroupAuthorizationFailed,
        NotLeader,
    )
}


def error_for_code(code: int, text: str = "") -> WireError:
    """Return a new exception for a non-zero wire code. An unknown code becomes an UnknownError that names the code."""
    cls = ERRORS_BY_CODE.get(code)
    if cls is None:
        return UnknownError(f"error code {code} is not known to this release" + (f": {text}" if text else ""))
    return cls(text or " ".join((cls.__doc__ or "").split()))


class ProtocolViolation(LogdError):
    """A peer sent bytes that are not a frame of the protocol: the connection has to be closed."""


class CorruptMessage(LogdError):
    """Stored bytes with a checksum mismatch, or that are not a message. They are never delivered.

    ``position`` is the bad entry's position in the partition's log.
    """

    def __init__(self, reason: str, position: int = -1) -> None:
        super().__init__(f"{reason} (at position {position})" if position >= 0 else reason)
        self.reason = reason
        self.position = position


class WrapperTooLarge(LogdError):
    """A compressed wrapper would expand to more than a setting of its reader allows. It is not damaged.

    ``setting`` is the name of that setting. The wrapper is at ``position`` to ``end`` of the partition's log, so
    reading can continue at ``end``.
    """

    def __init__(self, setting: str, limit: int, position: int = -1, end: int = -1, where: str = "") -> None:
        what = "messages" if setting.lower().endswith("messages") else "bytes"
        text = f"{where}the compressed wrapper" + (f" from position {position} to {end}" if position >= 0 else "")
        super().__init__(
            f"{text} would expand to more than {limit} {what} ({setting} = {limit}); it is not damaged: "
            f"raise {setting}" + (f", or continue after it, at position {end}" if position >= 0 else "")
        )
        self.setting = setting
        self.limit = limit
        self.position = position
        self.end = end


class ConfigurationError(LogdError):
    """A setting is unknown or its value is not allowed. The text names the key, the value and the allowed values."""


class MissingPackage(LogdError):
    """An optional package that the operation needs is not installed for the running Python."""


class DataDirectoryError(LogdError):
    """A data directory cannot be used: locked by another broker, of another format, or not writable."""


class BrokerUnavailable(LogdError):
    """A connection to a broker could not be made, or was lost before the response."""


class NothingHeard(BrokerUnavailable):
    """A connection was lost, or given up, before anything had come from it: the port may speak another protocol."""


class CannotConnect(BrokerUnavailable):
    """A connection to a broker could not be made: no broker runs at the address, or it cannot be reached."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        #: The reason in the text, without the address.
        self.reason = reason or text


class ProducerBufferFull(LogdError):
    """More sends wait for buffer space than the producer's settings allow: wait for ``ready()`` between sends."""


class DeliveryFailed(LogdError):
    """A message set could not be delivered within the producer's delivery timeout; ``__cause__`` is the last error."""


class PublishFailed(LogdError):
    """Messages given to ``publish`` will not be delivered: ``count`` of them; ``__cause__`` is the first reason."""

    def __init__(self, text: str, count: int = 0) -> None:
        super().__init__(text)
        self.count = count


class DeadLetterFailed(LogdError):
    """A dead letter could not be written: its message counts as not handled, and the stream stays before it."""


class ClientClosed(LogdError):
    """The producer, consumer or stream was closed."""


class PartitionLost(LogdError):
    """A position could not be stored, as the partition now belongs to another consumer of the group."""
