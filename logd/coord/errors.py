"""Errors of the coordination tree: one class for each error code of ZooKeeper's protocol."""

from __future__ import annotations

from typing import ClassVar

from logd.errors import LogdError


class CoordinationError(LogdError):
    """Base of every failure of a call on the coordination tree; ``code`` is ZooKeeper's, ``path`` the node, if any."""

    code: ClassVar[int] = -1

    def __init__(self, text: str = "", path: str = "") -> None:
        super().__init__(text or f"{path}: {(self.__doc__ or '').strip()}".removeprefix(": "))
        self.path = path


class SystemFailure(CoordinationError):
    """The server failed in a way that has no code of its own."""

    code = -1


class RuntimeInconsistency(CoordinationError):
    """An operation of a multi was not tried, because another one of it failed."""

    code = -2


class DataInconsistency(CoordinationError):
    """The server's data contradict themselves."""

    code = -3


class ConnectionLoss(CoordinationError):
    """The connection was lost before the answer came: the request may or may not have been executed."""

    code = -4


class MarshallingError(CoordinationError):
    """A request or an answer could not be read."""

    code = -5


class Unimplemented(CoordinationError):
    """The server does not know that request."""

    code = -6


class OperationTimeout(CoordinationError):
    """No answer came in time: the request may have been executed, or may be executed later."""

    code = -7


class BadArguments(CoordinationError):
    """A path, a version or another argument is not allowed."""

    code = -8


class NoNode(CoordinationError):
    """There is no such node."""

    code = -101


class NoAuth(CoordinationError):
    """The node's access list does not allow this operation to this client."""

    code = -102


class BadVersion(CoordinationError):
    """The node's version is not the one demanded: another client changed it."""

    code = -103


class NoChildrenForEphemerals(CoordinationError):
    """An ephemeral node cannot have children."""

    code = -108


class NodeExists(CoordinationError):
    """A node with that path exists already."""

    code = -110


class NotEmpty(CoordinationError):
    """The node has children."""

    code = -111


class SessionExpired(CoordinationError):
    """The session is over: its ephemeral nodes are gone, or will be."""

    code = -112


class InvalidCallback(CoordinationError):
    """A callback is not allowed there."""

    code = -113


class InvalidAcl(CoordinationError):
    """An access list is empty or names a scheme that the server does not know."""

    code = -114


class AuthFailed(CoordinationError):
    """The server did not accept the client's credentials."""

    code = -115


class SessionMoved(CoordinationError):
    """The session has moved to another connection."""

    code = -118


class ClientClosing(CoordinationError):
    """The client was closed; nothing more is sent."""

    code = -116


#: Every class with a code of its own, by that code.
ERRORS_BY_CODE: dict[int, type[CoordinationError]] = {
    cls.code: cls
    for cls in (
        SystemFailure,
        RuntimeInconsistency,
        DataInconsistency,
        ConnectionLoss,
        MarshallingError,
        Unimplemented,
        OperationTimeout,
        BadArguments,
        NoNode,
        NoAuth,
        BadVersion,
        NoChildrenForEphemerals,
        NodeExists,
        NotEmpty,
        SessionExpired,
        InvalidCallback,
        InvalidAcl,
        AuthFailed,
        ClientClosing,
        SessionMoved,
    )
}


def error_for_code(code: int, path: str = "") -> CoordinationError:
    """Return a new exception for a non-zero code of ZooKeeper's protocol."""
    cls = ERRORS_BY_CODE.get(code)
    if cls is None:
        return SystemFailure(f"{path}: ZooKeeper's error code {code}", path)
    return cls(path=path)
