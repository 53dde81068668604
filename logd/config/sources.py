"""Sources of settings: TOML files and command lines, merged in order; errors name their source."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from logd.config.broker import BrokerSettings
from logd.config.kafka import KafkaSettings
from logd.config.legacy import LegacySettings
from logd.config.log import LogSettings
from logd.config.names import unknown
from logd.config.replication import ReplicationSettings
from logd.config.security import SecuritySettings
from logd.config.setting import Setting, settings_of
from logd.config.zookeeper import SECURITY_ROWS as TREE_ROWS
from logd.config.zookeeper import ZooKeeperSecurity
from logd.errors import ConfigurationError

_LOG_ROWS = {row.name: row for row in settings_of(LogSettings)}
_KAFKA_ROWS = {row.name: row for row in settings_of(KafkaSettings)}
_LEGACY_ROWS = {row.name: row for row in settings_of(LegacySettings)}
_SECURITY_ROWS = {row.name: row for row in settings_of(SecuritySettings)}
_REPLICATION_ROWS = {row.name: row for row in settings_of(ReplicationSettings)}
_BROKER_ROWS = {row.name: row for row in settings_of(BrokerSettings)}
#: Every setting of a broker, by its dotted name.
ROWS: dict[str, Setting] = {
    **_BROKER_ROWS,
    **_SECURITY_ROWS,
    **_REPLICATION_ROWS,
    **_KAFKA_ROWS,
    **_LEGACY_ROWS,
    **TREE_ROWS,
    **_LOG_ROWS,
}


@attrs.frozen
class Source:
    """Values by dotted names, and the name of their source for errors (empty: none)."""

    origin: str
    values: Mapping[str, object]


def read_toml(path: str) -> Source:
    """Read a settings file; nested tables become dotted names. Raises ConfigurationError (unreadable, not TOML)."""
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"settings file {path!r} cannot be read: {os.strerror(error.errno or 0)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"settings file {path!r} is not TOML: {error}") from error
    return Source(path, _flattened(tables, ""))


def _flattened(tables: Mapping[str, Any], prefix: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in tables.items():
        if isinstance(value, dict):
            values.update(_flattened(value, f"{prefix}{key}."))
        else:
            values[prefix + key] = value
    return values


def parse_value(name: str, text: str) -> object:
    """Parse one setting's value. Raises ConfigurationError for an unknown name or a value that is not allowed."""
    row = ROWS.get(name)
    if row is None:
        raise unknown(name, ROWS)
    return row.parse(text)


def parse_assignments(assignments: Iterable[str], origin: str = "--set") -> Source:
    """Parse ``key=value`` texts of a command line; the last value of a key counts."""
    values = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigurationError(f"{origin} {assignment!r} is not allowed; allowed is key=value")
        values[name.strip()] = parse_value(name.strip(), text.strip())
    return Source(origin, values)


def broker_settings(*sources: Source) -> BrokerSettings:
    """Merge sources over the defaults; later ones win. Raises ConfigurationError (unknown, not allowed or missing)."""
    merged: dict[str, object] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for name, value in source.values.items():
            try:
                row = ROWS.get(name)
                if row is None:
                    raise unknown(name, ROWS)
                row.check(value)
            except ConfigurationError as error:
                raise (ConfigurationError(f"{source.origin}: {error}") if source.origin else error) from None
            merged[name] = value
            origins[name] = source.origin
    for row in _BROKER_ROWS.values():
        if row.required and row.name not in merged:
            raise ConfigurationError(
                f"{row.name} is not set: give --{row.option} with {row.kind.allowed}, or {row.name} in a settings file"
            )
    log: Any = {row.field_name: merged[row.name] for row in _LOG_ROWS.values() if row.name in merged}
    broker: Any = {row.field_name: merged[row.name] for row in _BROKER_ROWS.values() if row.name in merged}
    kafka: Any = {row.field_name: merged[row.name] for row in _KAFKA_ROWS.values() if row.name in merged}
    legacy: Any = {row.field_name: merged[row.name] for row in _LEGACY_ROWS.values() if row.name in merged}
    tree: Any = {row.field_name: merged[row.name] for row in TREE_ROWS.values() if row.name in merged}
    security: Any = {row.field_name: merged[row.name] for row in _SECURITY_ROWS.values() if row.name in merged}
    copies: Any = {row.field_name: merged[row.name] for row in _REPLICATION_ROWS.values() if row.name in merged}
    if merged.get("zookeeper.hosts") is not None and "zookeeper.listen" in merged:
        raise ConfigurationError(
            "zookeeper.hosts and zookeeper.listen contradict each other: a broker joins the coordination tree of the "
            "one, or serves its own at the other; give one of them"
        )
    return BrokerSettings(
        **broker,
        zookeeper_security=ZooKeeperSecurity(**tree),
        kafka=KafkaSettings(**kafka),
        legacy=LegacySettings(**legacy),
        security=SecuritySettings(**security),
        replication=ReplicationSettings(**copies),
        log=LogSettings(**log),
        origins=origins,
    )
