"""Fetch requests of one connection, of 0.7 and of ours; answers carry file ranges, never the messages' bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logd.broker.reading import find_log, read_range
from logd.broker.waiting import ReadPart, WaitingFetch
from logd.errors import InvalidRequest, UnknownTopic, WireError, WrongPartition
from logd.interfaces import IFileRange
from logd.net.server import Connection
from logd.protocol.fetch import FetchWait

if TYPE_CHECKING:
    from logd.broker.broker import Broker
