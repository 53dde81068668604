"""``logd collect`` with a real broker, files that grow and rotate, and kills."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from tests.integration.commands.rig import PATIENCE, CliTestCase, SharedBrokerTestCase

#: Kills of the collector; LOGD_KILL_ROUNDS for more.
ROUNDS = int(os.environ.get("LOGD_KILL_ROUNDS") or 5)


class Writer(threading.Thread):
    """A thread that writes lines to app.log and rotates it, by rename or by copying and emptying; none is removed."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(seed)
        self._path = folder / "app.log"
        self._ended = threading.Event()
        self._rotations = 0
        self.lines: list[bytes] = []

    def run(self) -> None:
        """Write until ``end`` is called."""
        file = self._path.open("ab", buffering=0)
        while not self._ended.wait(0.001):
            for _ in range(self._random.randint(1, 60)):
                self.lines.append(b"%07d %s" % (len(self.lines), b"x" * self._random.randint(0, 300)))
                text = self.lines[-1] + b"\n"
                cut = self._random.randint(0, len(text)) if self._random.random() < 0.05 else len(text)
                for part in (text[:cut], text[cut:]):
                    file.write(part)
            if self._random.random() < 0.02:
                self._rotations += 1
                rotated = f"{self._path}.{self._rotations}"
                if self._random.random() < 0.5:
                    shutil.copy(self._path, rotated)
                    file.truncate(0)
                else:
                    os.rename(self._path, rotated)
                    file.close()
                    file = self._path.open("ab", buffering=0)
        file.close()

    def end(self) -> None:
        """Stop writing; return once the file is closed."""
        self._ended.set()
        self.join(PATIENCE)


class CollectTestCase(CliTestCase):
    """A folder for logs, and a state file beside it."""

    def setUp(self) -> None:
        """Start the broker, and make the folder."""
        super().setUp()
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()
        self.state = Path(os.path.abspath(self.mktemp()))

    def write(self, name: str, content: bytes) -> Path:
        """Append to a file of the folder."""
        path = self.folder / name
        with path.open("ab") as file:
            file.write(content)
        return path

    def arguments(self, *more: str, pattern: str = "*") -> tuple[str, ...]:
        """Return the arguments of a collect command."""
        return (
            "collect",
            f"{self.folder}/{pattern}",
            "--topic",
            "t",
            "--state",
            str(self.state),
            "--poll",
            "0.05",
            *more,
        )

    def positions(self) -> dict[int, int]:
        """Return the positions in the state file, by inode."""
        try:
            return {each["inode"]: each["position"] for each in json.loads(self.state.read_bytes())["files"]}
        except FileNotFoundError:
            return {}

    def caught_up(self) -> bool:
        """Return True when every file of the folder, or the file that it is a copy of, was acknowledged to its end."""
        try:
            files = json.loads(self.state.read_bytes())["files"]
        except FileNotFoundError:
            return False
        known = {each["inode"]: each["position"] for each in files}
        known.update({copy[2]: copy[3] for each in files for copy in each["copies"]})
        return all(known.get(status.st_ino, 0) == status.st_size for status in map(Path.stat, self.folder.iterdir()))

    def stored(self) -> list[bytes]:
        """Return all lines in the topic."""
        return self.values("t")


class KillTests(CollectTestCase):
    """A collector that is killed again and again."""

    def test_every_line_arrives_through_rotations_and_kills(self) -> None:
        """The broker is killed once as well; lines may repeat, but none is lost or torn."""
        writer = Writer(self.folder, 1)
        writer.start()
        self.addCleanup(writer.end)
        notices = b""
        for round_ in range(ROUNDS):
            before = self.positions()
            process = self.begin(*self.arguments("--max-open", "3"))
            self.until(lambda before=before: self.positions() != before, "progress")  # type: ignore[misc]  # now's
            if round_ == ROUNDS // 2:
                self.broker.kill()
                self.broker.start()
                before = self.positions()
                self.until(lambda before=before: self.positions() != before, "progress with the new broker")  # type: ignore[misc]  # now's
            process.kill()
            notices += process.communicate(timeout=PATIENCE)[1]
        process = self.begin(*self.arguments())
        writer.end()
        self.until(self.caught_up, "the end of every file")
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 0, errors)
        self.assertNotIn(b"lost", notices + errors)
        found = list(dict.fromkeys(self.stored()))
        self.assertEqual(sorted(found), sorted(writer.lines))
        self.assertIn(b" is now ", notices + errors)


class FollowTests(SharedBrokerTestCase, CollectTestCase):
    """Lines that are followed: which of them are sent, when, and with which key and partition."""

    def test_every_complete_line_arrives_once(self) -> None:
        """Bytes are not decoded; an unfinished line waits for its end; files that appear later are found."""
        self.write("a.log", b"one\r\n\n\xff\x00\ntwo")
        self.write("old.gz", b"garbage\n")
        process = self.begin(*self.arguments())
        self.until(lambda: sum(self.positions().values()) == 9, "the complete lines")
        self.write("a.log", b" and a half\n")
        self.write("b.log", b"of another file\n")
        self.until(self.caught_up_but_compressed, "the rest")
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out, errors), (0, b"", b"logd: ended; 5 of 5 lines were acknowledged\n"))
        expected = [b"one\r", b"", b"\xff\x00", b"two and a half", b"of another file"]
        self.assertEqual(self.stored(), expected)

    def caught_up_but_compressed(self) -> bool:
        """Return True when all bytes of the two files of lines were acknowledged."""
        return sorted(self.positions().values()) == [16, 24]

    def test_once_sends_only_new_lines_and_ends(self) -> None:
        """A cron job may repeat it: each run goes on behind the last one, and counts in JSON what is left."""
        path = self.write("a.log", b"one\ntwo\n")
        options = ("--once", "--json", "--with-source", "--key", "file")
        first = json.loads(self.logd(*self.arguments(*options)))
        self.write("a.log", b"three\nunfinished")
        second = json.loads(self.logd(*self.arguments(*options)))
        third = json.loads(self.logd(*self.arguments(*options)))
        self.assertEqual([each["acknowledged"] for each in (first, second, third)], [2, 1, 0])
        self.assertEqual((third["files"], third["behind_bytes"], third["error"]), (1, 10, None))
        records = self.records("t", "--exit-at-end")
        self.assertEqual([each["value"] for each in records], ["one", "two", "three"])
        self.assertEqual({each["key"] for each in records}, {str(path)})
        self.assertEqual([each["name"] for each in records[0]["headers"]], ["host", "file"])
        self.assertEqual(records[0]["headers"][1]["value"], str(path))

    def test_a_pattern_without_files_is_reported_with_the_reason(self) -> None:
        """With --once the status is 1; without it the collector waits, and finds the file once it is made."""
        (self.folder / "sub").mkdir()
        self.write("old.log.gz", b"compressed")
        for pattern, said in (
            ("*.lgo", f"no file matches {self.folder}/*.lgo\n"),
            ("a.log", f"there is no file {self.folder}/a.log\n"),
            (
                "sub",
                f"{self.folder}/sub is a folder: to read the files in it, give {self.folder}/sub/*\n",
            ),
            ("*.gz", f"all that {self.folder}/*.gz matches is compressed or excluded\n"),
            ("none/*.log", f"there is no folder {self.folder}/none\n"),
        ):
            self.incomplete(said, pattern)
        process = self.begin(*self.arguments(pattern="late.log"))
        assert process.stderr is not None
        self.assertIn(b"there is no file", process.stderr.readline())
        self.write("late.log", b"one\n")
        self.until(self.caught_up_of("late.log"), "the line")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0)

    def incomplete(self, said: str, pattern: str) -> None:
        """Check that a run of --once prints ``said``, and ends with status 1."""
        process = self.begin(*self.arguments("--once", "--quiet", pattern=pattern))
        errors = process.communicate(timeout=PATIENCE)[1].decode()
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn(said, errors)
        self.assertIn("logd: not everything was collected: ", errors)

    def caught_up_of(self, name: str) -> Callable[[], bool]:
        """Return a function that is True once the file was acknowledged to its end."""
        return lambda: self.positions().get((self.folder / name).stat().st_ino) == (self.folder / name).stat().st_size

    def test_rotations_between_runs_lose_nothing(self) -> None:
        """A file that was compressed before it was read is a loss, reported with its size and by status 1."""
        path = self.write("app.log", b"0" * 70 + b"\n1\n")
        self.logd(*self.arguments("--once", pattern="app.log"))
        self.write("app.log", b"2\n")
        os.rename(path, f"{path}.2")
        self.write("app.log.1", b"3\n")
        self.write("app.log", b"4\n")
        summary = json.loads(self.logd(*self.arguments("--once", "--json", pattern="app.log")))
        self.assertEqual((summary["lines"], summary["lost_bytes"], summary["losses"]), (3, 0, 0))
        self.assertEqual(self.stored(), [b"0" * 70, b"1", b"2", b"3", b"4"])
        os.rename(path, f"{path}.1")
        self.write("app.log.0.gz", gzip.compress(b"5\n"))
        os.rename(f"{path}.0.gz", f"{path}.1.gz")
        os.rename(f"{path}.1", f"{path}.2")
        self.write("app.log", b"6\n")
        self.incomplete("lost: 2 bytes", "app.log")
        self.logd(*self.arguments("--once", pattern="app.log"))
        self.assertEqual(self.stored()[-1], b"6")

    def test_lines_of_a_file_keep_to_one_partition(self) -> None:
        """So they stay in order; --partition names another one, and `--key =all` gives every message that key."""
        self.create("t", 4)
        for number in range(8):
            self.write(f"{number}.log", b"".join(b"%d\n" % number for _ in range(20)))
        self.logd(*self.arguments("--once"))
        places: dict[str, set[int]] = {}
        for record in self.records("t", "--exit-at-end"):
            places.setdefault(record["value"], set()).add(record["partition"])
        self.assertEqual([len(each) for each in places.values()], [1] * 8)
        self.assertGreater(len(set.union(*places.values())), 1)
        self.state.unlink()
        self.logd(*self.arguments("--once", "--partition", "2", "--key", "=all", pattern="7.log"))
        keys = [each["key"] for each in self.records("t", "--partition", "2", "--exit-at-end")]
        self.assertEqual(keys.count("all"), 20)

    def test_from_end_leaves_out_earlier_lines(self) -> None:
        """Only the first start decides it: the second run takes the rest of the unfinished line and new files."""
        self.write("a.log", b"old\nunfinished")
        self.logd(*self.arguments("--once", "--from", "end"))
        self.write("a.log", b" line\n")
        self.write("b.log", b"new file\n")
        self.logd(*self.arguments("--once", "--from", "end"))
        self.assertEqual(sorted(self.stored()), [b"new file", b"unfinished line"])


class TroubleTests(CollectTestCase):
    """Collectors that cannot go on, or not yet."""

    def test_a_collector_waits_for_its_broker(self) -> None:
        """It may be started at boot before the broker; Ctrl-C is status 130 with its count."""
        self.write("a.log", b"one\n")
        self.broker.stop()
        process = self.begin(*self.arguments())
        self.until(self.state.exists, "a state file")
        self.broker.start()
        self.until(self.caught_up, "the line's acknowledgement")
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=PATIENCE)[1]
        *notices, count = errors.splitlines()
        self.assertEqual((process.returncode, count), (130, b"logd: ended; 1 of 1 lines were acknowledged"), errors)
        # On a slow machine the wait is long enough for its warning.
        self.assertTrue(all(b"connect" in notice for notice in notices), errors)
        self.assertEqual(self.stored(), [b"one"])

    def test_a_stop_without_a_broker_says_what_it_waits_for(self) -> None:
        """A second Ctrl-C ends the wait at once, with the count of the lines that are known to be acknowledged."""
        self.write("a.log", b"one\n")
        process = self.begin(*self.arguments())
        self.until(self.caught_up, "the line's acknowledgement")
        self.broker.kill()
        self.write("a.log", b"two\n")
        assert process.stderr is not None
        while b"no broker has acknowledged" not in process.stderr.readline():  # so the line was read, and is in flight
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        while b"stopping" not in (line := process.stderr.readline()):
            self.assertIsNone(process.poll())
        expected = b"waits up to 5 s for a broker to acknowledge the lines in flight; Ctrl-C again ends at once\n"
        self.assertEqual(line, b"logd: stopping: " + expected)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 130)
        self.assertEqual(errors.splitlines()[-1], b"logd: ended; 1 of 2 lines were acknowledged")
        self.broker.start()

    def test_each_reason_to_stop_is_one_line_and_a_status(self) -> None:
        """The reasons: a state file in use, of another topic, or damaged; no broker within --timeout; a line that is
        too long; a partition that does not exist."""
        self.write("a.log", b"a line\n")
        process = self.begin(*self.arguments())
        self.until(self.caught_up, "the line's acknowledgement")
        self.refused(1, (list(self.arguments()), "another process collects with the state file"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0)
        damaged = Path(self.mktemp())
        damaged.write_bytes(self.state.read_bytes()[:-5])
        new = [os.path.abspath(self.mktemp()) for _ in range(2)]
        a_log = ["collect", f"{self.folder}/a.log", "--once", "--topic"]
        self.refused(
            1,
            ([*a_log, "u", "--state", str(self.state)], "belongs to topic 't'"),
            ([*a_log, "t", "--state", str(damaged)], "is damaged"),
            ([*a_log, "t", "--state", new[0], "--max-line", "5", "--long-lines", "fail"], "longer than 5 bytes"),
            ([*a_log, "t", "--state", new[1], "--partition", "3"], "0 of 1 lines were acknowledged, then: "),
        )
        self.broker.stop()
        self.refused(3, ([*a_log, "t", "--state", new[0], "--timeout", "0.5"], "0 of 1 lines were acknowledged"))


class EndTests(SharedBrokerTestCase, CollectTestCase):
    """Collectors that end where the next one goes on."""

    def test_a_terminated_collector_leaves_the_rest(self) -> None:
        """SIGTERM in the middle of a large file is status 0; the next run sends exactly the missing lines."""
        lines = [b"%d %s" % (number, b"x" * 190) for number in range(150_000)]
        self.write("big.log", b"\n".join(lines) + b"\n")
        process: subprocess.Popen[bytes] = self.begin(*self.arguments())
        self.until(lambda: sum(self.positions().values()), "a beginning")
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 0, errors)
        self.logd(*self.arguments("--once", "--quiet"))
        self.assertEqual(self.stored(), lines)

    def test_each_topic_and_pattern_has_its_own_state(self) -> None:
        """The state files are in XDG_STATE_HOME; the second run of the same collector finds its own again."""
        home = Path(self.mktemp())
        self.env["XDG_STATE_HOME"] = str(home)
        self.write("a.log", b"one\n")
        for topic in ("t", "t", "u"):
            self.logd("collect", f"{self.folder}/*.log", "--topic", topic, "--once", "--quiet")
            self.assertEqual(self.errors, "")
        self.assertEqual(self.stored(), [b"one"])
        self.assertEqual(len(list((home / "logd").glob("collect-*.json"))), 2)
