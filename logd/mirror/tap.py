"""``twistd logd-mirror``: reads the options, and wires the mirror's service. Opens nothing."""

from __future__ import annotations

import gc
from typing import Any

from twisted.application.service import IService
from twisted.internet.endpoints import serverFromString
from twisted.python.usage import UsageError

from logd.coord import paths
from logd.errors import ConfigurationError
from logd.mirror.cluster_search import ClusterAddress
from logd.mirror.running import MirrorPlan
from logd.mirror.schemas.registry_pair import RegistryPair
from logd.mirror.settings import MirrorSettings
from logd.mirror.topic_names import Rename, TopicChoice
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES
from logd.service_options import ServiceOptions


class MirrorOptions(ServiceOptions):
    """The options of ``twistd logd-mirror``. ``plan`` is set once they are parsed."""

    command = "logd-mirror"
    plan: MirrorPlan

    synopsis = "--from ZK_OR_BROKERS --to ZK_OR_BROKERS --topics PATTERN [options]"

    longdesc = """\
Mirrors topics: copies their messages from one cluster to another, as they come, and keeps partitions, order, keys,
times and headers. Several mirrors of one group share the work. docs/mirror.md describes it."""

    optParameters: list[list[Any]] = [  # noqa: N815, RUF012  # Twisted reads it
        ["from", None, None, "The source: HOST:PORT,... of its coordination tree, or of brokers"],
        ["to", None, None, "The target: HOST:PORT,... of its coordination tree, or of brokers"],
        ["from-zookeeper", None, None, "The source's coordination tree, if --from names brokers [default: port 2181]"],
        ["topics", None, None, "A regular expression that matches the whole names of the topics to mirror"],
        ["group", None, "mirror", "The group on the source that mirrors share the work in"],
        ["audit-window", None, 60.0, "With --audit: seconds, the width of windows, the same for all", float],
        ["server", None, "", "With --audit: this server's name; by default that of the host"],
        ["schemas", None, None, "FROM_URL,TO_URL: registries; schemas that messages name are copied, with their ids"],
        ["max-decompressed", None, DEFAULT_MAX_DECOMPRESSED, "The most bytes of a compressed set that is opened", int],
        ["max-decompressed-messages", None, DEFAULT_MAX_DECOMPRESSED_MESSAGES, "The most messages in such a set", int],
        ["http", None, None, "The endpoint that serves /health and /metrics; by default none"],
    ]

    optFlags: list[list[Any]] = [  # noqa: N815, RUF012  # Twisted reads it
        ["audit", None, "Publish counts of mirrored messages to topic _audit of the source (see logd audit)"],
    ]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self["rename"] = []

    def opt_rename(self, rule: str) -> None:
        """PATTERN=NAME: call matching topics NAME on the target, for example: --rename '(.*)=east.\\1'"""
        self["rename"].append(rule)

    def postOptions(self) -> None:  # noqa: N802  # Twisted calls it
        """Check the options."""
        for name in ("from", "to", "topics"):
            if not self[name]:
                raise UsageError(f"--{name} is missing")
        try:
            self.plan = plan_of(
                self["from"], self["to"], self["topics"], self["group"], self["rename"], self["from-zookeeper"],
                self["schemas"], audit=bool(self["audit"]), audit_window=self["audit-window"], server=self["server"],
                max_decompressed=self["max-decompressed"], max_decompressed_messages=self["max-decompressed-messages"],
            )  # fmt: skip
            check_endpoint(self["http"])
        except ConfigurationError as error:
            raise UsageError(str(error)) from error


def plan_of(
    source: str,
    target: str,
    topics: str,
    group: str,
    renames: list[str] | tuple[str, ...],
    zookeeper: str | None,
    schemas: str | None = None,
    **settings: Any,
) -> MirrorPlan:
    """Return the plan of some options; ``settings`` are more of MirrorSettings. Raises ConfigurationError."""
    try:
        paths.group(group)
    except ValueError as error:
        raise ConfigurationError(f"group: {error}") from None
    choice = TopicChoice(topics, tuple(map(Rename.parse, renames)))
    return MirrorPlan(
        ClusterAddress(source, zookeeper),
        ClusterAddress(target),
        MirrorSettings(topics=choice, group=group, **settings),
        None if schemas is None else RegistryPair.parse(schemas),
    )


def check_endpoint(description: str | None) -> None:
    """Raise ConfigurationError for an endpoint that cannot be parsed."""
    from twisted.internet import reactor

    if description is not None:
        try:
            serverFromString(reactor, description)
        except Exception as error:  # an endpoint's parser may raise anything
            raise ConfigurationError(
                f"http = {description!r} is not allowed ({error}); allowed is a Twisted server endpoint description, "
                "such as 'tcp:8081:interface=127.0.0.1'"
            ) from error


#: The name under which twistd looks for them.
Options = MirrorOptions


def makeService(options: MirrorOptions) -> IService:  # noqa: N802  # twistd calls it
    """Return the mirror's service. Starts nothing, as twistd forks later."""
    from twisted.internet import reactor

    from logd.mirror.service import mirror_service
    from logd.net.allocator import keep_buffers
    from logd.net.monotonic import use_monotonic_time

    use_monotonic_time(reactor)
    keep_buffers(options.plan.settings.buffer_bytes)
    gc.freeze()
    return mirror_service(reactor, options.plan, options["http"])
