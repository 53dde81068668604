"""Fixtures for pytest, which finds them by the entry point ``pytest11``: brokers for any client of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from logd.testing.kafka_brokers.broker import KafkaBroker


@pytest.fixture
def kafka() -> Iterator[KafkaBroker]:
    """A new broker for this test alone, on a thread: ``kafka.bootstrap_servers`` is for any client of Kafka."""
    from logd.testing import kafka as new_broker

    with new_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_session() -> Iterator[KafkaBroker]:
    """One broker for all tests, in a process of its own; with pytest-xdist, one for each worker. See ``kafka``."""
    from logd.testing import kafka as new_broker

    with new_broker(process=True) as broker:
        yield broker
