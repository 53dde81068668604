"""The ports of a broker's settings: taken by another program, or answered by the broker that runs."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence

from attrs import frozen

from logd.config import BrokerSettings, parse_address
from logd.doctor.observation import Level, Observation

AREA = "ports"
#: Seconds within which a port on this machine, and a name, have to answer.
_SECONDS = 2.0
_ANY = ("", "0.0.0.0", "::")


@frozen
class TcpPort:
    """A TCP endpoint of a setting; ``host`` is empty for all addresses."""

    setting: str
    host: str
    port: int
    tls: bool = False


def endpoints_of(settings: BrokerSettings) -> list[TcpPort]:
    """Return the TCP endpoints that a broker of these settings listens on; those of other kinds are left out."""
    named = [
        ("listen", settings.listen),
        *(("kafka.listen", each) for each in settings.kafka.endpoints),
        ("legacy.listen", settings.legacy.legacy_listen),
        ("http", settings.http),
        *([("zookeeper.listen", settings.zookeeper_listen)] if settings.zookeeper_hosts is None else []),
    ]
    return [found for name, text in named if text is not None and (found := _endpoint(name, text)) is not None]


def _endpoint(setting: str, text: str) -> TcpPort | None:
    # A colon within an argument is written as \: there.
    kind, *arguments = text.replace("\\:", "\0").split(":")
    if kind not in ("tcp", "tcp6", "ssl"):
        return None
    words = [each.replace("\0", ":").partition("=") for each in arguments]
    values = {name: value for name, equals, value in words if equals}
    plain = [name for name, equals, _ in words if not equals]
    number = values.get("port") or (plain[0] if plain else "")
    return TcpPort(setting, values.get("interface", ""), int(number), kind == "ssl") if number.isdigit() else None


def examine_ports(endpoints: Sequence[TcpPort], running: bool) -> Iterator[Observation]:
    """Connect to each port if the broker runs, else see whether it is free."""
    for endpoint in endpoints:
        if endpoint.port:
            where = f"{endpoint.setting} {endpoint.host or '*'}:{endpoint.port}"
            yield _answers(endpoint, where) if running else _is_free(endpoint, where)


def _answers(endpoint: TcpPort, where: str) -> Observation:
    host = endpoint.host if endpoint.host not in _ANY else "127.0.0.1"
    try:
        socket.create_connection((host, endpoint.port), _SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:  # UnicodeError: see examine_advertised
        return Observation(
            AREA,
            Level.PROBLEM,
            where,
            f"the broker runs, and nothing answers there: {error}",
            "was the broker started with other settings (give doctor the same --config and options)? See its log",
        )
    return Observation(AREA, Level.OK, where, "answers")


def _is_free(endpoint: TcpPort, where: str) -> Observation:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((endpoint.host, endpoint.port))
    except OverflowError as error:
        return Observation(AREA, Level.PROBLEM, where, f"is no port: {error}", "choose one from 1 to 65535")
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.EADDRINUSE:
            text, remedy = "another program has the port", f"`ss -ltnp sport = :{endpoint.port}` names it"
        elif number == errno.EACCES:
            text, remedy = "only root may listen there", "choose a port above 1023, or AmbientCapabilities= in the unit"
        else:
            text, remedy = f"cannot be listened on: {error}", "is the address one of this machine's (`ip address`)?"
        return Observation(AREA, Level.PROBLEM, where, text, remedy)
    return Observation(AREA, Level.OK, where, "is free")


def examine_advertised(settings: BrokerSettings) -> Iterator[Observation]:
    """See whether the address that clients are told has a meaning on other machines."""
    listening = next((each for each in endpoints_of(settings) if each.setting == "listen"), None)
    if settings.advertise is None:
        if listening is not None and listening.host in _ANY:
            yield Observation(
                AREA,
                Level.WARNING,
                "advertise",
                "is not set although the broker listens on all addresses: clients are told 127.0.0.1",
                "--advertise HOST:PORT with a name that clients can resolve",
            )
        return
    host, port = parse_address(settings.advertise)
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the name is empty or too long
        yield Observation(
            AREA, Level.PROBLEM, f"advertise {host}", f"cannot be resolved: {error}", "correct the name, or its entry"
        )
        return
    yield Observation(AREA, Level.OK, f"advertise {host}", f"is {', '.join(sorted(found))}")
