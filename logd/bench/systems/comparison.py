"""A run of the comparison: rounds, in each of which every system is started, loaded by each client, and stopped."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence

from attrs import asdict, define, field, frozen

from logd.bench.machine import describe_machine
from logd.bench.rates.process_usage import UsageMeter, memory_bytes
from logd.bench.rates.result import summarise
from logd.bench.scratch import scratch
from logd.bench.systems.client_main import Measured
from logd.bench.systems.client_process import ClientProcess
from logd.bench.systems.load import Load
from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.errors import LogdError

#: Seconds of each measurement at a rate.
PACED_SECONDS = 3.0


@frozen
class PeerPlan:
    """The load for every system: messages of ``size`` bytes, and for the latency ``rates`` in messages a second.

    With batch 1, where each message is a request of its own, a tenth of ``messages`` is sent.
    """

    messages: int = 200_000
    size: int = 200
    batches: tuple[int, ...] = (1, 50, 0)
    rates: tuple[int, ...] = (100, 1_000, 5_000, 20_000)
    rounds: int = 3
    #: For clients of Kafka: "1", or "all".
    acks: str = "1"

    def messages_of(self, batch: int) -> int:
        """Return the messages of one measurement, a multiple of ``batch``."""
        most = self.messages // 10 if batch == 1 else self.messages
        return max(batch or 1, most // (batch or 1) * (batch or 1))


@define
class PeerComparison:
    """Measures ``peers`` in ``folder``; ``tell`` is called with a text about each step. Blocks."""

    folder: str
    places: SystemPlaces
    plan: PeerPlan
    peers: Sequence[type[Peer]]
    tell: Callable[[str], None] = lambda _: None
    _rows: dict[tuple[object, ...], list[dict[str, object]]] = field(factory=dict, init=False)
    _missing: dict[str, str] = field(factory=dict, init=False)
    _starts: dict[str, list[dict[str, object]]] = field(factory=dict, init=False)
    _versions: dict[str, str] = field(factory=dict, init=False)

    def run(self) -> dict[str, object]:
        """Return the plan, the systems, and for each measurement the medians and spread of its successful rounds."""
        machine = describe_machine()
        for number in range(self.plan.rounds):
            for kind in self.peers:
                reason = kind.missing(self.places)
                if reason:
                    self._missing[kind.name] = reason
                    continue
                self.tell(f"round {number + 1} of {self.plan.rounds}: {kind.name}")
                with scratch(self.folder) as folder:
                    self._round(kind(self.places, tempfile.mkdtemp(dir=folder)))
        return {
            "bench": "peers",
            **asdict(self.plan),
            "machine": machine,
            "systems": [
                {"system": kind.name, "version": self._versions.get(kind.name, ""), "durability": kind.durability}
                for kind in self.peers
                if kind.name in self._versions
            ],
            "missing": [{"name": name, "reason": reason} for name, reason in self._missing.items()],
            "starts": [summarise(rows, "seconds") for rows in self._starts.values()],
            "figures": [summarise(rows, _key(rows[0])) for rows in self._rows.values()],
        }

    def _round(self, peer: Peer) -> None:
        try:
            begin = time.monotonic()
            try:
                peer.start()
                self._started(peer, time.monotonic() - begin)
            except (LogdError, OSError) as error:
                self._missing[peer.name] = str(error)
                return
            self._versions[peer.name] = peer.version
            for client in peer.clients:
                reason = client.missing(self.places)
                if reason:
                    self._missing[f"{peer.name} by {client.name}"] = reason
                    continue
                for batch in self.plan.batches:
                    if not client.batches or batch in client.batches:
                        self._attempt(peer, client, f"batch {batch}", lambda: self._rates(peer, client, batch))  # noqa: B023  # called at once
                for rate in self.plan.rates if client.paced else ():
                    self._attempt(peer, client, f"{rate} a second", lambda: self._latency(peer, client, rate))  # noqa: B023
        finally:
            peer.stop()

    def _started(self, peer: Peer, seconds: float) -> None:
        resident = sum(memory_bytes(each, "VmRSS") for each in peer.processes)
        figures = {"seconds": round(seconds, 3), "idle_megabytes": round(resident / 1e6, 1)}
        self._starts.setdefault(peer.name, []).append({"system": peer.name, **figures})

    def _attempt(self, peer: Peer, client: PeerClient, what: str, work: Callable[[], None]) -> None:
        """Do one measurement. A failure becomes a line of the result, and the run goes on."""
        try:
            work()
        except (LogdError, OSError) as error:
            self._missing[f"{peer.name} by {client.name}, {what}"] = str(error)

    def _rates(self, peer: Peer, client: PeerClient, batch: int) -> None:
        load = Load(
            _topic(client, f"b{batch}"), self.plan.messages_of(batch), self.plan.size, batch, acks=self.plan.acks
        )
        peer.create(load.topic)
        before = peer.stored_bytes()
        produced, server = self._measure(peer, client, "produce", load)
        stored = (peer.stored_bytes() - before) / load.messages
        self._add("produce", peer, client, batch, produced, server, {"disk_bytes_per_message": round(stored, 1)})
        if client.consumes:
            consumed, server = self._measure(peer, client, "consume", load)
            self._add("consume", peer, client, batch, consumed, server, {})

    def _latency(self, peer: Peer, client: PeerClient, rate: int) -> None:
        messages = int(rate * PACED_SECONDS)
        load = Load(_topic(client, f"r{rate}"), messages, self.plan.size, 0, rate)
        peer.create(load.topic)
        producing = ClientProcess.start(client, "produce", peer, load)
        try:
            consumed = ClientProcess.start(client, "consume", peer, load).result()
            produced = producing.result()
        finally:
            producing.kill()
        figures = {
            "reached_per_second": round(produced.per_second),
            "latency_ms_median": consumed.latency_ms_median,
            "latency_ms_99": consumed.latency_ms_99,
        }
        self._note(("latency", peer.name, client.name, rate), {"rate": rate, **figures})

    def _measure(self, peer: Peer, client: PeerClient, part: str, load: Load) -> tuple[Measured, dict[str, object]]:
        self.tell(f"{peer.name}: {client.name}, {part}, batch {load.batch or 'by default'}")
        meter = UsageMeter(peer.processes)
        measured = ClientProcess.start(client, part, peer, load).result()
        used = meter.read()
        if measured.messages < load.messages:
            raise LogdError(f"only {measured.messages} of {load.messages} messages were counted ({part})")
        return measured, {
            "server_processor_seconds": used.processor_seconds,
            "server_peak_megabytes": round(used.peak_bytes / 1e6, 1),
        }

    def _add(
        self,
        part: str,
        peer: Peer,
        client: PeerClient,
        batch: int,
        measured: Measured,
        server: dict[str, object],
        more: dict[str, object],
    ) -> None:
        figures: dict[str, object] = {
            "batch": batch,
            "messages": measured.messages,
            "messages_per_second": round(measured.per_second),
            "client_processor_seconds": measured.processor_seconds,
            "client_peak_megabytes": measured.peak_megabytes,
        }
        self._note((part, peer.name, client.name, batch), {**figures, **server, **more})

    def _note(self, key: tuple[object, ...], figures: dict[str, object]) -> None:
        part, system, client, _ = key
        row: dict[str, object] = {"part": part, "system": system, "client": client, **figures}
        self._rows.setdefault(key, []).append(row)


def _key(row: dict[str, object]) -> str:
    return "latency_ms_99" if row["part"] == "latency" else "messages_per_second"


def _topic(client: PeerClient, what: str) -> str:
    words = "".join(each if each.isalnum() and each.isascii() else "-" for each in client.name.lower())
    return f"{words.strip('-')}-{what}"
