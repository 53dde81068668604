"""The settings of this broker that Kafka has a name for, as tools show them."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs import frozen

from logd.broker.kafka.administration.setting_names import KAFKA_SETTINGS, ConfigType
from logd.broker.requests.core import BrokerCore
from logd.config import BrokerSettings
from logd.config.replication import ReplicationSettings
from logd.config.setting import Setting, settings_of


@frozen
class BrokerSetting:
    """One setting with its value."""

    name: str
    value: str
    type: ConfigType
    meaning: str
    #: True if the value is another than the default.
    is_set: bool = False


_SETTINGS: dict[str, tuple[str, ConfigType]] = {
    # Kafka's name, our field and the type.
    "connections.max.idle.ms": ("idle_ms", ConfigType.LONG),
    "delete.topic.enable": ("administration_requests", ConfigType.BOOLEAN),
    "max.connections": ("connections_max", ConfigType.INT),
    "num.partitions": ("topics_partitions", ConfigType.INT),
    "socket.request.max.bytes": ("frame_bytes", ConfigType.INT),
}


def broker_settings(broker: BrokerCore) -> Iterator[BrokerSetting]:
    """Yield the settings, those of logs as far as topics without settings of their own have them."""
    settings = broker.settings
    creates = BrokerSetting(
        "auto.create.topics.enable",
        _text(settings.creates_on_demand),
        ConfigType.BOOLEAN,
        "Whether a topic is created when a client uses it: topics.create.",
        not settings.creates_on_demand,
    )
    yield creates
    yield BrokerSetting("broker.id", str(broker.store.broker_id), ConfigType.INT, "The broker's id.", True)
    copies = settings.replication.default_replicas
    yield BrokerSetting(
        "default.replication.factor",
        str(copies),
        ConfigType.INT,
        "The replicas of topics whose creation says no number: default.replicas.",
        copies != ReplicationSettings().default_replicas,
    )
    yield BrokerSetting("log.dirs", broker.store.path, ConfigType.STRING, "The data directory.", True)
    rows: dict[str, Setting] = {row.field_name: row for row in settings_of(BrokerSettings)}
    for name, (field_name, kind) in _SETTINGS.items():
        row = rows[field_name]
        value = getattr(settings, field_name)
        yield BrokerSetting(name, _text(value), kind, row.meaning, value != row.default)
    logs = settings.log_settings({})
    defaults = attrs.asdict(type(logs)())
    for each in KAFKA_SETTINGS.values():
        if not each.broker_name:
            continue
        if each.native is None:
            yield BrokerSetting(each.broker_name, each.default, each.type, each.meaning)
            continue
        value = getattr(logs, each.native.field_name)
        is_set = value != defaults[each.native.field_name]
        yield BrokerSetting(each.broker_name, each.text_of(value), each.type, each.meaning, is_set)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
