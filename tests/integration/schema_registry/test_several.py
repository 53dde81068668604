"""Several registries over one tree, and a registry of a broker: they agree, and survive kills."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import four_letter_word
from logd.testing.processes.schema_registry import SchemaRegistryProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.integration.peers import PATIENCE
from tests.integration.schema_registry.rig import RegistryProcessTestCase, ask, record

REQUESTS = 200
#: Seconds between two looks, or two tries, while something has not happened yet.
POLL_SECONDS = 0.02


class SeveralRegistriesHistories(RegistryProcessTestCase):
    """Two registries, over any kind of tree; subclasses choose it."""

    count = 2

    def register(self, number: int, text: str, subject: str) -> int:
        """Register at one of the two; a subject takes any schema."""
        url = self.registries[number % 2].url
        status, answer = ask(url, f"/subjects/{subject}/versions", {"schema": text})
        self.assertEqual(status, 200, answer)
        return int(answer["id"])

    def register_again(self, number: int, text: str, subject: str) -> int:
        """Register at one of the two; repeat what fails because the tree does not answer."""
        url = self.registries[number % 2].url
        while True:
            status, answer = ask(url, f"/subjects/{subject}/versions", {"schema": text})
            if status < 500:
                self.assertEqual(status, 200, answer)
                return int(answer["id"])
            time.sleep(POLL_SECONDS)

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Poll until ``true()`` holds; fail with ``what`` after PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), deadline, f"never happened: {what}")
            time.sleep(POLL_SECONDS)

    def check_200_concurrent_registrations(self, register: Callable[[int, str, str], int]) -> None:
        """Register one schema in many subjects, and forty schemas that compete for the next id and version."""
        ask(self.url, "/config", {"compatibility": "NONE"}, "PUT")
        with ThreadPoolExecutor(50) as threads:
            same = set(threads.map(lambda each: register(each, record("a"), f"s{each}"), range(REQUESTS)))
            self.assertEqual(same, {1})
            competing = list(
                threads.map(
                    lambda each: (each % 40, register(each // 40, record(f"f{each % 40}"), "one")), range(REQUESTS)
                )
            )
        ids: dict[int, set[int]] = {}
        for number, schema_id in competing:
            ids.setdefault(number, set()).add(schema_id)
        self.assertEqual(sorted(map(tuple, ids.values())), [(number,) for number in range(2, 42)])
        for registry in self.registries:
            self.shows_all(registry.url)

    def shows_all(self, url: str) -> None:
        """Wait until a registry shows all versions and subjects: what the other one did last comes by a watch."""
        self.until(lambda: ask(url, "/subjects/one/versions") == (200, list(range(1, 41))), "all versions")
        self.until(lambda: len(ask(url, "/subjects")[1]) == REQUESTS + 1, "all subjects")

    def check_kills(self) -> None:
        """Kill registries and the tree under load: an answer stays true, and what had none has at most one id."""
        ask(self.url, "/config", {"compatibility": "NONE"}, "PUT")
        given: dict[int, int] = {}
        for round_ in range(3):
            harmed = self.registries[round_ % 2] if round_ < 2 else self.tree
            with ThreadPoolExecutor(8) as threads:
                answers = [
                    (
                        number,
                        threads.submit(
                            ask,
                            self.registries[number % 2].url,
                            "/subjects/k/versions",
                            {"schema": record(f"f{number}")},
                        ),
                    )
                    for number in range(round_ * 40, round_ * 40 + 40)
                ]
                next(each for each in answers)[1].result()
                harmed.kill()
                harmed.start()
            for number, answer in answers:
                if answer.exception() is None and answer.result()[0] == 200:
                    given[number] = answer.result()[1]["id"]
        for number in range(120):
            found = self.register_again(0, record(f"f{number}"), "k")
            self.assertEqual(given.setdefault(number, found), found)
        self.assertEqual(sorted(given.values()), list(range(1, 121)))


class EmbeddedTreeTests(SeveralRegistriesHistories):
    """Over ``logd zookeeper``."""

    def test_200_concurrent_registrations_give_each_schema_one_id(self) -> None:
        """Of one schema in many subjects, and of forty schemas that compete for the next id and version."""
        self.check_200_concurrent_registrations(self.register)

    def test_ids_and_schemas_survive_kills_of_registries_and_tree(self) -> None:
        """Schemas whose registration was answered are there afterwards; the others have at most one id."""
        self.check_kills()


class RealZooKeeperTests(SeveralRegistriesHistories):
    """Over a real ZooKeeper, whose sessions are short."""

    skip = missing() or None

    def make_tree(self, data: str) -> ZooKeeperProcess:
        """Return a ZooKeeper that grants a session less than the client asks for."""
        return ZooKeeperProcess(data, settings=("maxSessionTimeout=4000",))

    def expired_sessions(self) -> int:
        """Return how many sessions the server has ended for silence."""
        words = four_letter_word(self.tree.port, b"mntr").decode().split()
        return int(float(words[words.index("zk_stale_sessions_expired") + 1]))

    def test_200_concurrent_registrations_give_each_schema_one_id_while_a_session_expires(self) -> None:
        """A registry stands still in the middle, until the server has ended its session; then it goes on."""
        asked = iter(range(2 * REQUESTS))
        paused = self.registries[0]

        def expire() -> None:
            before = self.expired_sessions()  # on a busy machine the other's may have expired
            paused.pause()
            try:
                while self.expired_sessions() == before:
                    time.sleep(POLL_SECONDS)
            finally:
                paused.resume()

        with ThreadPoolExecutor(1) as one:
            expiring: list[Future[None]] = []

            def register(number: int, text: str, subject: str) -> int:
                if next(asked) == REQUESTS // 2:
                    expiring.append(one.submit(expire))
                return self.register_again(number, text, subject)

            self.check_200_concurrent_registrations(register)
            expiring[0].result()

    def test_ids_and_schemas_survive_kills_of_registries_and_tree(self) -> None:
        """Schemas whose registration was answered are there afterwards; the others have at most one id."""
        self.check_kills()


class BrokerRegistryTests(SynchronousTestCase):
    """The registry at a broker's --http."""

    def test_a_broker_serves_the_same_registry_as_a_process_beside_it(self) -> None:
        """Over the broker's embedded tree; a restart forgets nothing, and a setting turns it off."""
        data = self.mktemp()
        http = free_port()
        url = f"http://127.0.0.1:{http}"
        options = [f"--http=tcp:{http}:interface=127.0.0.1"]
        with BrokerProcess(data, options) as broker:
            self.assertEqual(ask(url, "/subjects/a/versions", {"schema": record("x")}), (200, {"id": 1}))
            with SchemaRegistryProcess(broker.coordination, f"{data}.registry.log") as registry:
                self.assertEqual(ask(registry.url, "/schemas/ids/1")[0], 200)
                self.assertEqual(ask(registry.url, "/subjects/b/versions", {"schema": record("y")}), (200, {"id": 2}))
            self.assertEqual(ask(url, "/subjects/b/versions"), (200, [1]))
            broker.stop()
            broker.start()
            self.assertEqual(ask(url, "/subjects"), (200, ["a", "b"]))
            broker.stop()
            broker.options = [*options, "--set=schema.registry.enabled=false"]
            broker.start()
            status = self.assertRaises(ValueError, ask, url, "/subjects")  # Twisted's page of HTML
            self.assertIsInstance(status, ValueError)
            self.assertNotIn("Traceback", Path(broker.log).read_text(encoding="utf-8"))
