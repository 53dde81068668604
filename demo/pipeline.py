"""The pipeline of the demonstration: events of two schemas go from a live cluster to an offline one, and are counted.

Servers are killed meanwhile. Each command is one that a user would type.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from attrs import define, field

from demo.patience import PATIENCE
from logd.testing.processes.pipeline import PipelineProcesses
from logd.testing.processes.server import ServerProcess

TOPIC = "views"
PARTITIONS = 4
GROUP = "report"
#: Questions to the audit, at most.
MOST_AUDITS = 40

_NUMBER = {"name": "number", "type": "long"}
_PAGE = {"name": "page", "type": "string"}
_AGENT = {"name": "agent", "type": "string", "default": "unknown"}
#: The first schema of the events, and the one that it evolves to.
SCHEMAS = {
    name: json.dumps({"type": "record", "name": "View", "fields": fields})
    for name, fields in (("first", [_NUMBER, _PAGE]), ("second", [_NUMBER, _PAGE, _AGENT]))
}


def page(number: int) -> str:
    """Return the page of an event, which no other event has."""
    return f"/page/{number:06d}"


class PipelineFailure(Exception):
    """A step of the pipeline did not do what it should; the text says what it did."""


@define(eq=False)
class Report:
    """A program on the offline cluster that reads the events, until it has seen those that it waits for."""

    process: subprocess.Popen[bytes]
    #: The times that each number was read, and the schemas by which events were written.
    numbers: dict[int, int] = field(factory=dict)
    schemas: set[int] = field(factory=set)
    ended: bool = False
    _changed: Condition = field(factory=Condition, init=False)

    def __attrs_post_init__(self) -> None:
        Thread(target=self._read, daemon=True).start()

    def wait_for(self, numbers: Iterable[int]) -> None:
        """Wait until these numbers were read. Raises PipelineFailure."""
        wanted = set(numbers)
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended or wanted <= self.numbers.keys(), PATIENCE) or self.ended:
                raise PipelineFailure(f"{len(wanted - self.numbers.keys())} events did not reach the offline cluster")

    def stop(self) -> None:
        """Stop the program, which publishes its last counts. Raises PipelineFailure."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        if status not in (0, 128 + signal.SIGTERM):
            raise PipelineFailure(f"logd consume ended with status {status}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            number = event["value"]["number"]
            with self._changed:
                self.numbers[number] = self.numbers.get(number, 0) + 1
                self.schemas.add(event["schema"])
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()


@define(eq=False)
class Pipeline:
    """A pipeline, from its start to the verdict of the audit. Every method raises PipelineFailure."""

    folder: Path
    processes: PipelineProcesses = field(init=False)
    #: Events that were given to producers.
    events: int = 0
    _begun: list[subprocess.Popen[bytes]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.processes = PipelineProcesses(self.folder)
        for name, schema in SCHEMAS.items():
            (self.folder / f"{name}.avsc").write_text(schema)

    @property
    def audit_options(self) -> tuple[str, ...]:
        """The options of every command that counts."""
        return "--audit", "--audit-window", str(self.processes.window)

    def start(self) -> None:
        """Start the servers, and create the topic on the live cluster."""
        self.processes.start()
        self.run_live("topics", "create", TOPIC, "--partitions", str(PARTITIONS))

    def produce(self, server: str, schema: str) -> subprocess.Popen[bytes]:
        """Start a producer on the live cluster, whose events ``feed`` gives it."""
        begun = self.processes.live.begin(
            *("produce", TOPIC, "--avro", str(self.folder / f"{schema}.avsc"), "--server", server, "--json"),
            *self.audit_options,
            errors=subprocess.DEVNULL,
        )
        self._begun.append(begun)
        return begun

    def feed(self, producer: subprocess.Popen[bytes], count: int, **more: str) -> None:
        """Give a producer some events more, with further fields."""
        assert producer.stdin is not None
        for number in range(self.events, self.events + count):
            event = {"number": number, "page": page(number), **more}
            producer.stdin.write(json.dumps(event).encode() + b"\n")
        producer.stdin.flush()
        self.events += count

    def finish(self, producer: subprocess.Popen[bytes]) -> int:
        """End a producer; return the number of events that were acknowledged to it."""
        output, _ = producer.communicate(timeout=PATIENCE)
        if producer.returncode:
            raise PipelineFailure(f"logd produce ended with status {producer.returncode}: {output.decode()}")
        return int(json.loads(output)["acknowledged"])

    def report(self) -> Report:
        """Start the program that reads the events on the offline cluster."""
        begun = self.processes.offline.begin(
            *("consume", TOPIC, "--format", "avro", "--group", GROUP, "--server", "report"),
            *self.audit_options,
            errors=subprocess.DEVNULL,
        )
        self._begun.append(begun)
        return Report(begun)

    def kill(self, *servers: ServerProcess) -> None:
        """Kill servers at once, and start them again."""
        for each in servers:
            each.kill()
        for each in servers:
            each.start()

    def load(self, target: Path) -> int:
        """Import the events from the offline cluster as typed columns with Spark; return the number of messages."""
        done = self.processes.offline.run(
            *("import", "--topics", TOPIC, "--to", str(target), "--server", "import", "--json", "--quiet"),
            *("--registry", self.processes.offline.registry),
            *self.audit_options,
        )
        if done.returncode:
            raise PipelineFailure(f"logd import ended with status {done.returncode}: {done.stderr.decode()}")
        return int(json.loads(done.stdout)["messages"])

    def audit(self, *tiers: str) -> tuple[list[dict[str, Any]], str]:
        """Ask the audit on the offline cluster; return its verdicts on these tiers and its complaints.

        Asks again until each of them has messages and nothing is unaccounted, as counts are on their way for a while.
        """
        verdicts, complaints = [], ""
        for _ in range(MOST_AUDITS):
            done = self.processes.offline.run(
                "audit", "--topic", TOPIC, "--window", str(self.processes.window), "--grace", "0", "--json"
            )
            found = (json.loads(line) for line in done.stdout.splitlines())
            verdicts = [each for each in found if each["tier"] in tiers]
            complaints = done.stderr.decode()
            unaccounted = any(each["unaccounted"] for each in verdicts)
            if {each["tier"] for each in verdicts} == set(tiers) and not unaccounted:
                break
        return verdicts, complaints

    def remove_one(self, number: int) -> str:
        """Remove the message of an event from a segment of the live cluster by hand; return the partition's name."""
        text = page(number)
        for broker in self.processes.live.brokers:
            for segment in Path(broker.data).glob(f"{TOPIC}-*/*.log"):
                at = segment.read_bytes().find(text.encode())
                if at >= 0:
                    with open(segment, "r+b") as file:
                        os.pwrite(file.fileno(), b"X", at)
                    partition = segment.parent.name.rpartition("-")[2]
                    self.run_live("repair", "--broker", broker.address, TOPIC, partition, "--yes", "--quiet")
                    return segment.parent.name
        raise PipelineFailure(f"no segment has {text!r}")

    def run_live(self, *arguments: str) -> bytes:
        """Run a command on the live cluster; return its output."""
        done = self.processes.live.run(*arguments)
        if done.returncode:
            raise PipelineFailure(f"logd {arguments[0]} ended with status {done.returncode}: {done.stderr.decode()}")
        return done.stdout

    def stop(self) -> list[int]:
        """Stop all servers; return their exit statuses."""
        return self.processes.stop()

    def end(self) -> None:
        """Kill whatever still runs."""
        for each in self._begun:
            if each.poll() is None:
                each.kill()
                each.wait()
            for pipe in (each.stdin, each.stdout):
                if pipe is not None:
                    pipe.close()
        self.processes.kill()
