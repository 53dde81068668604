"""Collects and delivers high volumes of log data: topics of partitioned, append-only logs behind a network service.

The names below are fetched from where they live when they are first asked for, so that a program that needs the
protocol alone (a worker with a blocking socket) never imports Twisted.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logd.client.admin import Admin
    from logd.client.consumer import Consumer
    from logd.client.producer import Producer
    from logd.client.starts import Position, Time
    from logd.protocol.message import Message
    from logd.protocol.messageset import MessageSet

__version__ = "0.1.0"

__all__ = ["Admin", "Consumer", "Message", "MessageSet", "Position", "Producer", "Time", "__version__"]

_HOMES = {
    "Admin": "logd.client.admin",
    "Consumer": "logd.client.consumer",
    "Message": "logd.protocol.message",
    "MessageSet": "logd.protocol.messageset",
    "Position": "logd.client.starts",
    "Producer": "logd.client.producer",
    "Time": "logd.client.starts",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
