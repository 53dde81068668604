"""Clients of other protocols, recognized by their first bytes: of today's Kafka, of ZooKeeper, HTTP and TLS.

request of today's Kafka   int32 size | int16 api key | int16 version | int32 correlation id | client id | body
client id                  int16 bytes (-1: none) | UTF-8
ApiVersions (18)           versions 0 to 2: no body
                           from 3 on: 00 | compact str software name | compact str its version | 00
compact str                varint (bytes + 1) | UTF-8
first of a ZooKeeper client int32 0 | int64 zxid | int32 timeout ms | int64 session | int32 16 | 16 bytes, optional bool
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error

from logd.errors import ProtocolViolation

_ZOOKEEPER = Struct(">iqiqi16x")
_KAFKA_HEAD = Struct(">hhih")
_API_VERSIONS = 18
_FLEXIBLE_FROM = 3
#: Bounds of what is taken for the head of a request of Kafka: more than there are, and than anybody uses.
_MOST_VERSIONS, _LONGEST_CLIENT_ID = 30, 255
#: Requests that a client begins with. Others have the types of requests of ours.
_API_NAMES = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", _API_VERSIONS: "ApiVersions"}
#: The first four bytes of HTTP requests; PRI is the preface of HTTP/2.
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
#: A handshake record of TLS, any version: 16 03, then one of these.
_TLS_MINOR_VERSIONS = range(5)


class ForeignClient(ProtocolViolation):
    """A peer speaks another protocol; ``kind`` says which, the text also what to do about it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def foreign_opening(size: int, setting: str = "listen") -> ForeignClient | None:
    """Return the kind of client whose first four bytes were read as a frame's size, None if it is not recognized.

    ``setting`` is that of the port.
    """
    opening = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if opening in _HTTP:
        return ForeignClient(
            "HTTP",
            "an HTTP client called, and this port does not speak HTTP; /health and /metrics are served at the address "
            "of the setting http (option --http)",
        )
    if opening[:2] == b"\x16\x03" and opening[2] in _TLS_MINOR_VERSIONS:
        return ForeignClient(
            "TLS",
            "a TLS client called, and this port does not speak TLS; have it connect without, or let the broker listen "
            f"on an ssl: endpoint (setting {setting})",
        )
    return None


def foreign_request(
    frame: bytes | memoryview, start: int, stop: int, kafka: Sequence[tuple[str, int]] = ()
) -> ForeignClient | None:
    """Return the client of today's Kafka or of ZooKeeper that sent an invalid frame, None for any other frame.

    ``kafka`` has the addresses of this broker's ports for such clients.

    ApiVersions is recognized by the whole frame. Other requests are recognized by the head, which must contain a client
    id: no request of 0.7 or of ours has printable text there.
    """
    if _is_zookeeper(frame, start, stop):
        return ForeignClient(
            "ZooKeeper",
            "a ZooKeeper client called, and this port serves no coordination tree; --zookeeper and LOGD_ZOOKEEPER name "
            "the port of the tree, which is that of `logd zookeeper --listen`, or of the setting zookeeper.listen",
        )
    called = kafka_call(frame, start, stop)
    if called is None:
        return None
    return ForeignClient(
        "Kafka",
        f"a client of Kafka 0.8 or later called ({called}), and this port speaks the protocol of Kafka 0.7 and logd's "
        f"own; {_kafka_remedy(kafka)}",
    )


def kafka_call(frame: bytes | memoryview, start: int, stop: int) -> str | None:
    """Return what a client of today's Kafka asked for, and its name; None for a frame that is not recognized."""
    try:
        key, version, _, length = _KAFKA_HEAD.unpack_from(frame, start)
    except error:
        return None
    body = start + _KAFKA_HEAD.size + max(length, 0)
    if not (
        key in _API_NAMES and 0 <= version < _MOST_VERSIONS and -1 <= length <= _LONGEST_CLIENT_ID and body <= stop
    ):
        return None
    client = _text(frame, body - max(length, 0), body)
    software: str | None = ""
    if key == _API_VERSIONS:
        software = software_name(bytes(frame[body:stop])) if version >= _FLEXIBLE_FROM else "" if body == stop else None
    if client is None or software is None or (key != _API_VERSIONS and not client):
        return None
    called: str = (
        f"{_API_NAMES[key]} version {version}"
        + f", client id {client!r}" * (length > 0)
        + f", {software}" * bool(software)
    )
    return called


def _is_zookeeper(frame: bytes | memoryview, start: int, stop: int) -> bool:
    if stop - start not in (_ZOOKEEPER.size, _ZOOKEEPER.size + 1):
        return False
    version, _, timeout, _, password = _ZOOKEEPER.unpack_from(frame, start)
    return bool(version == 0 and timeout > 0 and password == 16)


def _kafka_remedy(kafka: Sequence[tuple[str, int]]) -> str:
    if kafka:
        return f"have it connect to the port for such clients, {' or '.join(f'{host}:{port}' for host, port in kafka)}"
    return (
        "let the broker listen for such clients too, with --kafka-listen tcp:9092:interface=127.0.0.1, or use logd's "
        "client or commands (docs/clients.md)"
    )


def is_api_versions(
    frame: bytes | memoryview, start: int, stop: int, kafka: Sequence[tuple[str, int]] = ()
) -> ForeignClient | None:
    """Return the client of today's Kafka that sent an ApiVersions request, None for any other frame."""
    if frame[start : start + 2] != b"\x00\x12":
        return None
    return foreign_request(frame, start, stop, kafka)


def _text(data: bytes | memoryview, start: int, stop: int) -> str | None:
    """Return printable ASCII, None for anything else: a log line shows it."""
    text = bytes(data[start:stop])
    return text.decode() if all(0x20 <= byte < 0x7F for byte in text) else None


def software_name(body: bytes) -> str | None:
    """Return the software that an ApiVersions body of version 3 or later names, None if the bytes are no such body."""
    at, parts = 1, []
    for _ in range(2):
        length = body[at] - 1 if at < len(body) else -1
        text = _text(body, at + 1, at + 1 + length)
        if not 0 <= length < 0x7F or at + 1 + length > len(body) or text is None:
            return None
        parts.append(text)
        at += 1 + length
    return " ".join(parts).strip() if body[:1] == b"\0" and body[at:] == b"\0" else None
