"""Security settings of clients of the coordination tree: TLS and credentials."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from logd.config.kinds import PemFile, Secret, Switch
from logd.config.setting import setting, settings_of
from logd.errors import ConfigurationError

#: The environment variable with the servers of the coordination tree, used if no setting or option names them.
HOSTS_VARIABLE = "LOGD_ZOOKEEPER"


@attrs.frozen(kw_only=True)
class ZooKeeperSecurity:
    """Security of connections to the tree, for brokers, commands and consumers. Raises ConfigurationError."""

    zookeeper_tls_enabled: bool = setting(
        "zookeeper.tls.enabled", Switch(), False, "Connect to the servers of the coordination tree over TLS."
    )
    zookeeper_tls_authorities: str | None = setting(
        "zookeeper.tls.authorities",
        PemFile(),
        None,
        "The trusted certificate authorities for the servers' certificates; by default the system's.",
    )
    zookeeper_tls_certificate: str | None = setting(
        "zookeeper.tls.certificate", PemFile(), None, "The client's own certificate, for servers that ask for one."
    )
    zookeeper_tls_key: str | None = setting(
        "zookeeper.tls.key", PemFile(), None, "The key of the client's own certificate, without a password."
    )
    zookeeper_tls_hostname: bool = setting(
        "zookeeper.tls.hostname",
        Switch(),
        True,
        "Require that a server's certificate names the host in `zookeeper.hosts`.",
    )
    zookeeper_digest_credentials: str | None = setting(
        "zookeeper.digest.credentials",
        Secret("USER:PASSWORD"),
        None,
        "The credentials of the client. Nodes that it creates can then be changed only with them, and read by all. Set "
        "this in a file or the environment: command lines are visible to every user of the machine.",
        secret=True,
    )
    zookeeper_digest_file: str | None = setting(
        "zookeeper.digest.file", PemFile("a file"), None, "A file with these credentials in its first line."
    )

    def __attrs_post_init__(self) -> None:
        if not self.zookeeper_tls_enabled:
            for name in ("authorities", "certificate", "key"):
                if getattr(self, f"zookeeper_tls_{name}") is not None:
                    raise ConfigurationError(f"zookeeper.tls.{name} is given, but zookeeper.tls.enabled is not true")
        if (self.zookeeper_tls_certificate is None) != (self.zookeeper_tls_key is None):
            raise ConfigurationError("zookeeper.tls.certificate and zookeeper.tls.key go together: give both or none")
        if self.zookeeper_digest_credentials is not None and self.zookeeper_digest_file is not None:
            raise ConfigurationError("zookeeper.digest.credentials and zookeeper.digest.file: give one of them")


SECURITY_ROWS = {row.name: row for row in settings_of(ZooKeeperSecurity)}


def variable(name: str) -> str:
    """Return the environment variable of a setting: ``LOGD_ZOOKEEPER_TLS_ENABLED`` for ``zookeeper.tls.enabled``."""
    return f"LOGD_{name.upper().replace('.', '_')}"


def values_of_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the values in the environment, by dotted names. Raises ConfigurationError for one that is not allowed."""
    values = {}
    for name, row in SECURITY_ROWS.items():
        text = environ.get(variable(name))
        if text:
            try:
                values[name] = row.parse(text)
            except ConfigurationError as error:
                raise ConfigurationError(f"{variable(name)}: {error}") from None
    return values


def security_of_environment(environ: Mapping[str, str]) -> ZooKeeperSecurity:
    """Return the security settings of the environment, for commands. Raises ConfigurationError."""
    values: dict[str, object] = {
        SECURITY_ROWS[name].field_name: value for name, value in values_of_environment(environ).items()
    }
    return ZooKeeperSecurity(**values)  # type: ignore[arg-type]  # each was checked by its row
