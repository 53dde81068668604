"""A run of the comparison: rounds, in each of which every system is started, loaded by each client, and stopped."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from attrs import asdict, define, evolve, field, frozen

from logd.bench.machine import describe_machine
from logd.bench.rates.process_usage import UsageMeter, memory_bytes
from logd.bench.rates.result import summarise
from logd.bench.scratch import scratch
from logd.bench.systems.client_main import Measured
from logd.bench.systems.client_process import ClientProcess
from logd.bench.systems.load import Load
from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.sizing import messages_in
from logd.errors import LogdError

#: Seconds of each measurement at a rate.
PACED_SECONDS = 3.0
#: The batches with which a client is warmed up, the first that it supports: its own, or else those that send quickly.
WARM_BATCHES = (0, 50)


@frozen
class PeerPlan:
    """The load for every system: messages of ``size`` bytes, and for the latency ``rates`` in messages a second.

    A measurement has as many messages as its client sends in about ``seconds``, and at most ``messages``, or
    ``single_messages`` with batch 1, where each message is a request of its own; with 0 seconds always that many.
    """

    messages: int = 2_000_000
    single_messages: int = 2_000_000
    size: int = 200
    batches: tuple[int, ...] = (1, 50, 0)
    rates: tuple[int, ...] = (100, 1_000, 5_000, 20_000)
    rounds: int = 3
    #: For clients that have the choice. What nobody acknowledges (0) is measured with batch 1 alone.
    acks: tuple[int, ...] = (1, -1, 0)
    seconds: float = 5.0
    #: Messages that each client sends and reads in each round before it is measured.
    warm_messages: int = 20_000

    def most_of(self, batch: int) -> int:
        """Return the most messages of one measurement."""
        return self.single_messages if batch == 1 else self.messages

    def acks_of(self, client: PeerClient, batch: int) -> Sequence[int | None]:
        """Return the acks with which a client is measured; None for one that has no choice."""
        return [each for each in self.acks if each in client.acks and (each or batch == 1)] if client.acks else [None]


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
    #: The messages of each measurement, the same in all rounds.
    _sizes: dict[tuple[object, ...], int] = field(factory=dict, init=False)

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
                self._warm(peer, client)
                for batch in self.plan.batches:
                    if not client.batches or batch in client.batches:
                        self._rates(peer, client, batch)
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

    def _warm(self, peer: Peer, client: PeerClient) -> None:
        """Have a client send and read some messages, for systems that compile themselves or grow at first.

        What fails here fails again where it is measured.
        """
        messages = min(self.plan.warm_messages, self.plan.messages)
        batch = next((each for each in WARM_BATCHES if not client.batches or each in client.batches), 1)
        if not messages:
            return
        self.tell(f"{peer.name}: {client.name} warms up")
        load = Load(_topic(client, "warm"), _whole(messages, batch), self.plan.size, batch)
        with suppress(LogdError, OSError):
            peer.create(load.topic)
            ClientProcess.start(client, "produce", peer, load).result()
            if client.consumes:
                ClientProcess.start(client, "consume", peer, load).result()

    def _rates(self, peer: Peer, client: PeerClient, batch: int) -> None:
        """Produce with each of the acks, and read once: the log that is read is the same."""
        for number, acks in enumerate(self.plan.acks_of(client, batch)):
            words = f"batch {batch}" if acks is None else f"batch {batch}, acks {acks}"
            reads = client.consumes and not number
            self._attempt(peer, client, words, lambda: self._rate(peer, client, batch, acks, reads))  # noqa: B023  # called at once

    def _rate(self, peer: Peer, client: PeerClient, batch: int, acks: int | None, reads: bool) -> None:
        name = f"b{batch}" if acks is None else f"b{batch}-acks{acks}"
        load = Load(_topic(client, name), 0, self.plan.size, batch, acks=1 if acks is None else acks)
        load = evolve(load, messages=self._size(peer, client, load))
        peer.create(load.topic)
        before = peer.stored_bytes()
        produced, server = self._measure(peer, client, "produce", load)
        stored = (peer.stored_bytes() - before) / load.messages
        more = {**server, "disk_bytes_per_message": round(stored, 1)}
        self._add("produce", peer, client, (batch, acks), produced, more)
        if reads:
            consumed, server = self._measure(peer, client, "consume", load)
            self._add("consume", peer, client, (batch, None), consumed, server)

    def _size(self, peer: Peer, client: PeerClient, load: Load) -> int:
        """Return the messages of a measurement; in the first round trials tell."""
        most = self.plan.most_of(load.batch)
        seconds = 0 if client.whole and load.batch != 1 else self.plan.seconds
        key = (peer.name, client.name, load.batch, load.acks)

        def send(messages: int) -> Measured:
            self.tell(f"{peer.name}: {client.name}, trial of {messages:,} messages, batch {load.batch or 'by default'}")
            trial = evolve(load, topic=f"{load.topic}-trial{messages}", messages=_whole(messages, load.batch))
            peer.create(trial.topic)
            return ClientProcess.start(client, "produce", peer, trial).result()

        if key not in self._sizes:
            found = messages_in(seconds, most, send) if seconds else most
            self._sizes[key] = _whole(found, load.batch)
        return self._sizes[key]

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
        shape: tuple[int, int | None],
        measured: Measured,
        more: dict[str, object],
    ) -> None:
        batch, acks = shape
        figures: dict[str, object] = {
            "batch": batch,
            **({} if acks is None else {"acks": acks}),
            "messages": measured.messages,
            "seconds": round(measured.seconds, 3),
            "messages_per_second": round(measured.per_second),
            "client_processor_seconds": measured.processor_seconds,
            "client_peak_megabytes": measured.peak_megabytes,
        }
        self._note((part, peer.name, client.name, shape), {**figures, **more})

    def _note(self, key: tuple[object, ...], figures: dict[str, object]) -> None:
        part, system, client, _ = key
        row: dict[str, object] = {"part": part, "system": system, "client": client, **figures}
        self._rows.setdefault(key, []).append(row)


def _key(row: dict[str, object]) -> str:
    return "latency_ms_99" if row["part"] == "latency" else "messages_per_second"


def _topic(client: PeerClient, what: str) -> str:
    words = "".join(each if each.isalnum() and each.isascii() else "-" for each in client.name.lower())
    return f"{words.strip('-')}-{what}"


def _whole(messages: int, batch: int) -> int:
    """Return a number of messages that makes whole batches."""
    each = batch or 1
    return max(each, messages // each * each)
