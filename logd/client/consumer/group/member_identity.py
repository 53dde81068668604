"""Defaults for a group's consumer: a client of the tree, and a unique id."""

from __future__ import annotations

import os
import re
import socket
from typing import Any
from uuid import uuid4

from attrs import evolve
from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.coord.errors import ClientClosing
from logd.coord.interfaces import ICoordination
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings
from logd.errors import ConfigurationError

_log = Logger()
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")


def connect_tree(reactor: Any, zookeeper: CoordinationSettings | str | None, session_timeout: float) -> ICoordination:
    """Begin to connect to the tree, for as long as it takes. Raises ConfigurationError for an invalid address.

    ``zookeeper`` is an address or full settings; the session's length comes from the group's settings in both cases.
    """
    if not isinstance(zookeeper, CoordinationSettings):
        zookeeper = CoordinationSettings(hosts="127.0.0.1:2181" if zookeeper is None else zookeeper)
    tree = ZooKeeperCoordination(reactor, evolve(zookeeper, session_timeout=session_timeout))
    tree.connect(FOR_EVER).addErrback(_not_connected, zookeeper.hosts)
    return tree


def consumer_id(name: str | None) -> str:
    """Return an id that no consumer has or had: each id's entry is read only once. Raises ConfigurationError."""
    begin = f"{socket.gethostname()}-{os.getpid()}" if name is None else name
    if not _NAME.match(begin):
        raise ConfigurationError(
            f"consumer_name = {name!r} is not allowed; allowed are 1 to 200 of the characters A-Z a-z 0-9 . _ -"
        )
    return f"{begin}-{uuid4().hex[:8]}"


def _not_connected(failure: Failure, hosts: str) -> None:
    if not failure.check(ClientClosing, CancelledError):
        _log.failure("cannot connect to the coordination tree at {hosts}", failure, hosts=hosts)
