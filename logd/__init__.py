"""Collects and delivers high volumes of log data: topics of partitioned, append-only logs behind a network service.

The names below are fetched from where they live when they are first asked for, so that a program that needs the
protocol alone (a worker with a blocking socket) never imports Twisted.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logd.client.admin.admin import Admin
    from logd.client.consumer.consumer import Consumer
    from logd.client.producer.producer import Producer
    from logd.client.starting_positions import Position, Time
    from logd.protocol.message import Message
    from logd.protocol.message_set import MessageSet

__version__ = "0.1.0"

__all__ = ["Admin", "Consumer", "Message", "MessageSet", "Position", "Producer", "Time", "__version__"]

_HOMES = {
    "Admin": "logd.client.admin.admin",
    "Consumer": "logd.client.consumer.consumer",
    "Message": "logd.protocol.message",
    "MessageSet": "logd.protocol.message_set",
    "Position": "logd.client.starting_positions",
    "Producer": "logd.client.producer.producer",
    "Time": "logd.client.starting_positions",
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
