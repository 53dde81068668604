"""The two registries of a mirror, as its options name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from logd.avro.registry_requests import RegistryRequests
from logd.errors import ConfigurationError
from logd.mirror.schemas.schema_copier import SchemaCopier
from logd.mirror.schemas.schema_gate import SchemaGate

#: Seconds for an answer of a registry; then it counts as away, and is asked again.
ANSWER_SECONDS = 10.0


@frozen
class RegistryPair:
    """The URLs of the source's registry, and of the target's."""

    source: str
    target: str

    @classmethod
    def parse(cls, text: str) -> RegistryPair:
        """Return the registries of ``FROM_URL,TO_URL``. Raises ConfigurationError."""
        urls = [each.strip().rstrip("/") for each in text.split(",")]
        if len(urls) != 2 or not all(map(_is_url, urls)):
            raise ConfigurationError(
                f"schemas = {text!r} is not allowed; allowed is FROM_URL,TO_URL, such as "
                "'http://live:8081,http://offline:8081'"
            )
        if urls[0] == urls[1]:
            raise ConfigurationError(
                f"schemas = {text!r} names one registry twice: it serves both clusters, so leave the option out"
            )
        return cls(*urls)

    def gate(self, reactor: Any, random: Callable[[], float]) -> SchemaGate:
        """Return the gate of a mirror."""
        source, target = (
            RegistryRequests(url, reactor=reactor, timeout=ANSWER_SECONDS) for url in (self.source, self.target)
        )
        return SchemaGate(reactor, SchemaCopier(source, target), random)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
