"""Numbers of ZooKeeper's client protocol: the types of requests, and the xids that belong to no client."""

from __future__ import annotations

import enum


class Opcode(enum.IntEnum):
    """The type in a request's header (ZooDefs.OpCode of ZooKeeper 3.9)."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    AUTH = 100
    SET_WATCHES = 101
    SET_WATCHES2 = 105
    CLOSE_SESSION = -11


#: The xid of a watch event.
EVENT_XID = -1
#: The type of a failed part of a multi, and of the end of one.
ERROR_TYPE = -1
#: The state in watch events (KeeperState.SyncConnected).
SYNC_CONNECTED = 3
