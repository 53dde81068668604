"""Settings: one frozen, validated object for each role, made from a TOML file, options and the defaults."""

from logd.config.broker import BrokerSettings
from logd.config.kinds import parse_address
from logd.config.log import LogSettings
from logd.config.sources import Source, broker_settings, parse_assignments, parse_value, read_toml
from logd.config.zookeeper import ZooKeeperSecurity

__all__ = [
    "BrokerSettings",
    "LogSettings",
    "Source",
    "ZooKeeperSecurity",
    "broker_settings",
    "parse_address",
    "parse_assignments",
    "parse_value",
    "read_toml",
]
