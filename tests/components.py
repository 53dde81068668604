"""The components of the project and their layers: the table that ``tests/layering.py`` checks imports by."""

from __future__ import annotations

from attrs import frozen


@frozen
class Component:
    """Modules under ``prefixes``, which may import one another, lower layers, and the modules in ``beside``."""

    name: str
    layer: int
    prefixes: tuple[str, ...]
    beside: tuple[str, ...] = ()
    #: Modules from outside the project that must not be imported (with everything below them).
    forbidden: tuple[str, ...] = ()
    #: When given, the only modules from outside the project and the standard library.
    allowed: tuple[str, ...] | None = None
    #: Modules that may import what is forbidden to the rest.
    exempt: tuple[str, ...] = ()
    #: Builtin functions that must not be called.
    forbidden_calls: tuple[str, ...] = ()


_NO_IO = (
    *("asyncio", "concurrent", "fcntl", "glob", "io", "logging", "mmap", "multiprocessing", "os", "pathlib", "select"),
    *("selectors", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "twisted", "_thread"),
)

_COORDINATION_WORDS = ("logd.coord.errors", "logd.coord.interfaces", "logd.coord.paths", "logd.coord.records")

_AVRO_WORDS = ("logd.avro.answers", "logd.avro.framing", "logd.avro.parsing", "logd.avro.written_values")
_SPARK_WORKERS = ("logd.spark.blocking", "logd.spark.worker")

COMPONENTS = (
    Component(
        "words",
        0,
        (
            *("logd.backoff", "logd.checkedjson", "logd.config", "logd.deadlines", "logd.errors"),
            *("logd.interfaces", "logd.leadership", "logd.plurals", "logd.topic", "logd.unprinted"),
        ),
        forbidden=("twisted",),
        allowed=("attrs", "zope.interface"),
    ),
    Component("security", 1, ("logd.security",), forbidden=_NO_IO, forbidden_calls=("open", "print", "input")),
    Component("deferreds", 0, ("logd.deferreds",), beside=("logd.interfaces",), allowed=("twisted",)),
    Component("java", 0, ("logd.java_runtime",), forbidden=("twisted",), allowed=()),
    Component(
        "protocol",
        1,
        ("logd.protocol",),
        forbidden=_NO_IO,
        exempt=("logd.protocol.implementation",),  # reads the environment's LOGD_LOOPS
        forbidden_calls=("open", "print", "input"),
    ),
    Component(
        "log",
        2,
        ("logd.log",),
        forbidden=_NO_IO,
        exempt=("logd.log.disk.local_files",),
        forbidden_calls=("open", "print", "input"),
    ),
    Component("coordination words", 2, _COORDINATION_WORDS),
    Component(
        "tree",
        2,
        ("logd.coord.tree",),
        beside=_COORDINATION_WORDS,
        forbidden=_NO_IO,
        forbidden_calls=("open", "print", "input"),
    ),
    Component(
        "coordination server",
        2,
        ("logd.coord.server",),
        beside=(
            *_COORDINATION_WORDS,
            "logd.coord.access_lists",
            "logd.coord.tree",
            "logd.log.disk.atomic",
            "logd.log.recovery.flush_mark",
            "logd.log.disk.names",
            "logd.net",
        ),
    ),
    Component("coord", 2, ("logd.coord",), beside=(*_COORDINATION_WORDS, "logd.coord.tree")),
    Component(
        "client core",
        2,
        ("logd.clientcore",),
        forbidden=_NO_IO,
        allowed=("attrs",),
        forbidden_calls=("open", "print", "input"),
    ),
    Component("net", 2, ("logd.net",)),
    Component("unused TLS", 0, ("logd.unused_tls",), allowed=("twisted",)),
    Component("tracing", 2, ("logd.tracing",), forbidden=("twisted",)),
    Component("doctor", 3, ("logd.doctor",)),
    Component("backup", 3, ("logd.backup",)),
    Component("supervision", 3, ("logd.supervision",)),
    Component(
        "audit",
        2,
        ("logd.audit",),
        forbidden=_NO_IO,
        allowed=("attrs",),
        forbidden_calls=("open", "print", "input"),
    ),
    Component(
        "avro schemas",
        1,
        ("logd.schema_registry.avro",),
        forbidden=_NO_IO,
        allowed=("attrs",),
        forbidden_calls=("open", "print", "input"),
    ),
    Component("avro words", 2, _AVRO_WORDS, forbidden=_NO_IO, allowed=("attrs", "fastavro")),
    Component("schema registry", 4, ("logd.schema_registry",)),
    Component("broker", 4, ("logd.broker",)),
    Component("client", 4, ("logd.client",)),
    Component("avro messages", 4, ("logd.avro",)),
    Component("aio", 5, ("logd.aio",)),
    Component("web", 5, ("logd.web",)),
    Component(
        "tap",
        5,
        (
            "logd.audit_tap",
            "logd.console_tap",
            "logd.own_connections",
            "logd.registry_tap",
            "logd.service_options",
            "logd.supervision_tap",
            "logd.tap",
        ),
        ("logd.web",),
    ),
    Component("plugins", 5, ("twisted.plugins",)),
    Component("testing", 5, ("logd.testing",)),
    Component("bench", 5, ("logd.bench",), beside=("logd.aio", "logd.testing", "logd.spark")),
    Component(
        "collect",
        5,
        ("logd.collect",),
        forbidden=_NO_IO,
        exempt=("logd.collect.disk", "logd.collect.collector"),
        forbidden_calls=("open", "print", "input"),
    ),
    Component("mirror", 5, ("logd.mirror",), beside=("logd.service_options", "logd.web")),
    Component(
        "cli",
        5,
        ("logd.cli", "logd.__main__"),
        beside=("logd.bench", "logd.collect", "logd.mirror", "logd.spark", "logd.tap"),
    ),
    # Spark's workers import a blocking socket and the protocol, and nothing of the driver.
    Component(
        "spark workers",
        3,
        _SPARK_WORKERS,
        forbidden=("asyncio", "pyspark", "twisted"),
        allowed=("attrs", "fastavro", "pyarrow"),
    ),
    Component(
        "spark",
        5,
        ("logd.spark",),
        forbidden=("twisted",),
        allowed=("attrs", "py4j", "pyarrow", "pyiceberg", "pyspark"),
    ),
)
