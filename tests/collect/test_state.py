"""Tests of logd.collect.state and state_file."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.collect.files import Seen
from logd.collect.read_mark import ReadMark
from logd.collect.rotation.siblings import Passed
from logd.collect.source import SourceFile
from logd.collect.state import BadState, State, decode_state, encode_state
from logd.collect.state_file import StateFile, StateInUse, default_path
from logd.log.disk.local_files import LocalFiles


def source(name: str = "/l/a\udcff.log") -> SourceFile:
    """Return a source whose fields all differ and whose name is no UTF-8."""
    copy = Seen("/l/copy", 1, 2, 3, 4)
    mark = ReadMark(2000, 1024, "aa", 256, "bb")
    return SourceFile(
        name,
        (5, 6),
        "/l/b",
        ReadMark(3000, 1024, "cc", 256, "dd"),
        acknowledged=mark,
        sound_size=4000,
        skip_to=3500,
        copies={copy.identity: copy},
    )


class StateTests(SynchronousTestCase):
    """``encode_state`` and ``decode_state``."""

    def test_acknowledged_places_come_back(self) -> None:
        """Each place is verified again, and lines that were only read are read again."""
        before = source()
        (after,) = decode_state(encode_state("t", State([before])), "t").sources
        for name in ("name", "identity", "path", "sound_size", "copies", "acknowledged", "skip_to"):
            self.assertEqual(getattr(after, name), getattr(before, name))
        self.assertEqual((after.mark, after.verified), (before.acknowledged, False))

    def test_patterns_and_passed_files_come_back(self) -> None:
        """A state of a release that did not keep them is read all the same."""
        mark = ReadMark(2000, 1024, "aa", 256, "bb")
        before = State(
            [source()], frozenset(("/l/*.log", "/l/\udcff")), [Passed("/l/a", Seen("/l/a.1", 1, 2, 3, 4), mark)]
        )
        encoded = encode_state("t", before)
        after = decode_state(encoded, "t")
        self.assertEqual((after.patterns, after.passed), (before.patterns, before.passed))
        old = json.loads(encoded)
        del old["patterns"], old["passed"], old["files"][0]["modified"]
        after = decode_state(json.dumps(old).encode(), "t")
        self.assertEqual((len(after.sources), after.patterns, after.passed), (1, None, []))

    def test_sources_stay_in_their_order(self) -> None:
        """Of one name the oldest file is read first."""
        sources = [source(f"/l/{number}") for number in (3, 1, 2)]
        self.assertEqual(
            [each.name for each in decode_state(encode_state("t", State(sources)), "t").sources],
            ["/l/3", "/l/1", "/l/2"],
        )

    def test_a_damaged_or_foreign_state_is_refused(self) -> None:
        """Another version's or topic's would make the collector skip or repeat lines."""
        good: dict[str, Any] = json.loads(encode_state("t", State([source()])))
        entry = good["files"][0]
        damaged: list[Any] = [
            {},
            [],
            {**good, "files": 1},
            {**good, "files": [{**entry, "position": "1"}]},
            {**good, "files": [{**entry, "copies": [[1]]}]},
            {**good, "files": [{key: value for key, value in entry.items() if key != "tail"}]},
        ]
        for state in damaged:
            with self.assertRaisesRegex(BadState, "is damaged, or not a state file .* move it away to begin anew"):
                decode_state(json.dumps(state).encode(), "t")
        for data in (b"", b"\xff", b'{"version": 1, "topic": "t", "fi'):
            with self.assertRaisesRegex(BadState, "is damaged"):
                decode_state(data, "t")
        with self.assertRaisesRegex(BadState, "has version 2, but this release supports only 1"):
            decode_state(json.dumps({**good, "version": 2}).encode(), "t")
        with self.assertRaisesRegex(BadState, "belongs to topic 't'"):
            decode_state(json.dumps(good).encode(), "u")


class StateFileTests(SynchronousTestCase):
    """``StateFile``."""

    def setUp(self) -> None:
        """Choose a path in a folder that does not exist."""
        self.path = os.path.abspath(os.path.join(self.mktemp(), "deep", "state.json"))

    def open(self) -> tuple[StateFile, State | None]:
        """Open the state file, and close it after the test."""
        file = StateFile(LocalFiles(), self.path, "t")
        restored = file.open()
        self.addCleanup(file.close)
        return file, restored

    def test_a_saved_state_is_there_the_next_time(self) -> None:
        """A save that was cut off leaves the one before."""
        file, restored = self.open()
        self.assertIsNone(restored)
        file.save(State([]))
        file.save(State([source()]))
        file.close()
        with open(f"{self.path}.tmp", "wb") as left:
            left.write(b"half")
        file, restored = self.open()
        assert restored is not None
        self.assertEqual([each.name for each in restored.sources], [source().name])
        file.save(State([]))
        file.close()
        restored = self.open()[1]
        assert restored is not None
        self.assertEqual(restored.sources, [])

    def test_a_state_file_has_one_collector(self) -> None:
        """Two of them would overwrite each other's positions."""
        file, _ = self.open()
        with self.assertRaisesRegex(StateInUse, f"another process collects with the state file {self.path}"):
            self.open()
        file.close()
        self.open()

    def test_an_unusable_state_file_is_named(self) -> None:
        """The file may be damaged, or its path one where no file can be."""
        os.makedirs(os.path.dirname(self.path))
        with open(self.path, "wb") as file:
            file.write(b"{")
        with self.assertRaisesRegex(BadState, f"the state file {self.path} is damaged"):
            self.open()
        self.path += "/below"
        with self.assertRaisesRegex(BadState, "cannot be used: "):
            self.open()

    def test_each_combination_has_a_default_path(self) -> None:
        """Topic, brokers and patterns count, the latter in any order."""
        home = {"HOME": "/home/x"}
        path = default_path("t", "b:1", ["/a", "/b"], home)
        self.assertRegex(path, r"^/home/x/\.local/state/logd/collect-[0-9a-f]{16}\.json$")
        self.assertEqual(default_path("t", "b:1", ["/b", "/a", "/a"], home), path)
        others = {
            default_path(*arguments, home)
            for arguments in (("u", "b:1", ["/a", "/b"]), ("t", "b:2", ["/a", "/b"]), ("t", "b:1", ["/a"]))
        }
        self.assertEqual(len(others | {path}), 4)
        self.assertTrue(default_path("t", "b:1", ["/a"], {"XDG_STATE_HOME": "/s"}).startswith("/s/logd/collect-"))
