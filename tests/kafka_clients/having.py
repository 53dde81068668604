"""Brings the clients into a folder outside the repository, each in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

HERE = Path(__file__).parent
_ALL = "none,gzip,snappy,lz4,zstd"
#: Seconds that one command of a client may take.
PATIENCE = 1800.0
#: The release of Apache Kafka's clients and tools.
KAFKA_VERSION = "4.1.0"
#: A Java that starts soon, as most of what it is asked for here is short.
JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>logd.tests</groupId><artifactId>clients</artifactId><version>1</version><dependencies>{}
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""
_DEPENDENCY = """
<dependency><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""
#: The artifacts of Apache Kafka's tools: ``kafka-configs`` is still in that of the broker.
TOOLS = ("kafka-tools", "kafka_2.13")


class CannotBeHad(Exception):
    """A client that cannot be had here; the text is the reason."""


@frozen
class Had:
    """A client that can be run."""

    version: str
    #: The command, before the arguments of drivers/digest.py.
    command: list[str]
    environment: dict[str, str] = field(factory=dict)

    def answer(self, *arguments: object, given: str = "") -> dict[str, Any]:
        """Run its program over the input ``given``; return what it answers. Raises AssertionError if it fails."""
        done = subprocess.run(
            [*self.command, *map(str, arguments)],
            env={**os.environ, **self.environment},
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def start(self, *arguments: object, errors: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start its program, with pipes to it and from it."""
        return subprocess.Popen(
            [*self.command, *map(str, arguments)],
            env={**os.environ, **self.environment},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )


@frozen
class RealClient:
    """One client: how to have it, and what its program can do."""

    name: str
    have: Callable[[Path], Had]
    codecs: str = _ALL
    #: Commands of its program beside produce and consume.
    more: tuple[str, ...] = ("idempotent", "look", "member")
    #: False for a client whose records have no times.
    times: bool = True


def _run(*command: str, folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    except FileNotFoundError:
        raise CannotBeHad(f"{command[0]} is not installed") from None
    if done.returncode:
        raise CannotBeHad(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _python(module: str, package: str, *more: str) -> Callable[[Path], Had]:
    def have(folder: Path) -> Had:
        folder.mkdir(parents=True, exist_ok=True)
        python = str(folder / "venv" / "bin" / "python")
        if not os.path.exists(python):
            _run(sys.executable, "-m", "venv", "venv", folder=folder)
            _run(python, "-m", "pip", "install", "-q", package, *more, folder=folder)
        name = package.partition("[")[0]
        asked = f"import importlib.metadata as m; print(m.version({name!r}))"
        version = _run(python, "-c", asked, folder=folder).strip()
        return Had(version, [python, "-m", f"drivers.{module}"], {"PYTHONPATH": str(HERE)})

    return have


def _kcat(folder: Path) -> Had:
    if shutil.which("kcat") is None:
        raise CannotBeHad("kcat is not installed (apt-get install kcat)")
    version = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False)
    found = next(line for line in (version.stdout + version.stderr).splitlines() if line.startswith("Version"))
    return Had(found.split()[1], [sys.executable, "-m", "drivers.kcat_client"], {"PYTHONPATH": str(HERE)})


def _go(source: str, module: str, package: str) -> Callable[[Path], Had]:
    def have(folder: Path) -> Had:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "drivers" / source, folder / "main.go")
        if not (folder / "go.mod").exists():
            _run("go", "mod", "init", "driver", folder=folder)
            _run("go", "get", f"{package}@latest", folder=folder)
        _run("go", "build", "-o", "driver", ".", folder=folder)
        version = _run("go", "list", "-m", "-f", "{{.Version}}", module, folder=folder).strip()
        return Had(version, [str(folder / "driver")])

    return have


#: kafkajs has gzip alone. kafkajs-lz4 is built by a C compiler; no codec of zstd that is a package of kafkajs can be
#: built for today's Node, so the driver makes one of zstd-codec (WebAssembly).
_CODECS_OF_KAFKAJS = ("kafkajs-snappy", "kafkajs-lz4", "zstd-codec")


def _kafkajs(folder: Path) -> Had:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "drivers" / "kafkajs.js", folder / "main.js")
    if not all((folder / "node_modules" / name).exists() for name in ("kafkajs", *_CODECS_OF_KAFKAJS)):
        _run("npm", "init", "-y", folder=folder)
        _run("npm", "install", "kafkajs", *_CODECS_OF_KAFKAJS, folder=folder)
    package = json.loads((folder / "node_modules" / "kafkajs" / "package.json").read_text())
    return Had(package["version"], ["node", str(folder / "main.js")])


def fetch_jars(folder: Path, *artifacts: str) -> Path:
    """Fetch artifacts of Apache Kafka, and what they need, into a folder; return that of the jars."""
    libraries = folder / "libs"
    if not all((libraries / f"{artifact}-{KAFKA_VERSION}.jar").exists() for artifact in artifacts):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = "".join(_DEPENDENCY.format(artifact, KAFKA_VERSION) for artifact in artifacts)
        (folder / "pom.xml").write_text(_POM.format(wanted))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"]
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=900, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotBeHad(f"mvn cannot fetch {' and '.join(artifacts)} {KAFKA_VERSION}: {error}") from error
    return libraries


def fetch_jar(folder: Path, artifact: str) -> Path:
    """Fetch one artifact, GROUP:NAME:VERSION, into a folder; return the jar."""
    _, name, version = artifact.split(":")
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=900, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotBeHad(f"mvn cannot fetch {artifact}: {error}") from error
    return jar


def java_program(folder: Path, name: str, first: str = "") -> Had:
    """Compile the programs of ``drivers/java`` with the jars of Apache Kafka's tools, which have its clients too.

    ``first``: a jar that goes before them.
    """
    libraries = fetch_jars(folder, *TOOLS)
    sources = sorted(map(str, (HERE / "drivers" / "java").glob("*.java")))
    _run("javac", "-nowarn", "-cp", f"{libraries}/*", "-d", "classes", *sources, folder=folder)
    path = [*([first] if first else []), str(folder / "classes"), f"{libraries}/*"]
    return Had(KAFKA_VERSION, [*JAVA, "-cp", ":".join(path), name])


def _java(release: str = "") -> Callable[[Path], Had]:
    """Return the function for a release of the clients, by default the newest; all are in the folder ``java``."""

    def have(folder: Path) -> Had:
        shared = folder.with_name("java")
        if not release:
            return java_program(shared, "Driver")
        jar = fetch_jar(shared / "releases", f"org.apache.kafka:kafka-clients:{release}")
        return evolve(java_program(shared, "Driver", str(jar)), version=release)

    return have


_CODECS_OF_KAFKA_PYTHON = ("cramjam", "python-snappy", "lz4", "zstandard")
#: afkak imports pkg_resources, which newer setuptools have no more.
_AFKAK = ("afkak", "python-snappy", "setuptools<80")

CLIENTS = (
    RealClient("kcat", _kcat, more=("idempotent", "look")),
    RealClient("confluent-kafka", _python("confluent_client", "confluent-kafka")),
    RealClient("kafka-python", _python("kafka_python_client", "kafka-python", *_CODECS_OF_KAFKA_PYTHON)),
    RealClient("aiokafka", _python("aiokafka_client", "aiokafka", "cramjam")),
    RealClient("afkak", _python("afkak_client", *_AFKAK), "none,gzip,snappy", (), times=False),
    RealClient(
        "franz-go",
        _go("franz.go", "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kgo"),
    ),
    RealClient("sarama", _go("sarama.go", "github.com/IBM/sarama", "github.com/IBM/sarama")),
    RealClient("kafkajs", _kafkajs),
    RealClient("java", _java()),
    RealClient("java-2", _java("2.8.2")),
    RealClient("java-1", _java("1.1.1"), "none,gzip,snappy,lz4"),
    RealClient("java-0.10", _java("0.10.2.2"), "none,gzip,snappy,lz4", ("look", "member")),
)
