"""Settings of a broker's listener for clients of today's Kafka."""

from __future__ import annotations

import attrs

from logd.config.kinds import Endpoint
from logd.config.setting import setting


@attrs.frozen(kw_only=True)
class KafkaSettings:
    """All settings whose names begin with ``kafka.``. Raises ConfigurationError for a value that is not allowed."""

    kafka_listen: str | None = setting(
        "kafka.listen",
        Endpoint("tcp:9092:interface=127.0.0.1"),
        None,
        "The endpoint that clients of today's Kafka connect to (extra `kafka`); by default none.",
        option="kafka-listen",
    )
