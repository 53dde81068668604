"""The commands of groups at a real broker with its own tree, each command a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import Any

from logd.coord import paths
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import start_python
from tests.integration.commands.rig import LOGD, PATIENCE, CommandTestCase, SharedBrokerTestCase
from tests.integration.topics import fill_topic, log_ends, read_partition

LINES = b"".join(b"%d\n" % number for number in range(1000))


class GroupsCliTestCase(SharedBrokerTestCase):
    """A topic ``t`` of four partitions with a thousand lines."""

    def setUp(self) -> None:
        """Start the broker and fill the topic."""
        super().setUp()
        self.env["LOGD_ZOOKEEPER"] = self.broker.coordination
        self.create("t", 4)
        for partition in (0, 2):  # the other two are empty
            self.fill("t", LINES[:1890] if partition else LINES[1890:], partition)

    def described(self, *more: str) -> dict[str, Any]:
        """Return the JSON of `groups describe` for group g."""
        found: dict[str, Any] = json.loads(self.logd("groups", "describe", "g", "--json", *more))
        return found

    def groups(self) -> list[str]:
        """Return the names of all groups."""
        return list(self.node(paths.CONSUMERS))

    def owners(self) -> list[bytes]:
        """Return the streams of group g that own a partition of the topic, once for each."""
        return list(self.node(paths.group_owners("g", "t")).values())

    def at_end(self) -> bool:
        """Return True if group g has committed the end of each log of the topic."""
        committed = self.node(paths.group_offsets("g", "t"))
        ends = log_ends(self.broker.address, "t")
        return [int(committed.get(str(partition)) or 0) for partition in range(len(ends))] == ends

    def lines(self, *outputs: bytes) -> list[bytes]:
        """Return the lines of all outputs, sorted."""
        return sorted(line for output in outputs for line in output.splitlines())


class ConsumingTests(GroupsCliTestCase):
    """The command ``logd consume --group``."""

    def test_a_group_goes_on_where_it_was(self) -> None:
        """Its position is committed when a command ends; another group gets all messages."""
        self.assertEqual(self.lines(self.logd("consume", "t", "--group", "g", "--exit-at-end")), self.lines(LINES))
        self.fill("t", b"more\n", 1)
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--exit-at-end"), b"more\n")
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--exit-at-end"), b"")
        self.assertEqual(len(self.logd("consume", "t", "--group", "h", "--exit-at-end").splitlines()), 1001)

    def test_max_leaves_the_rest_to_the_next_command(self) -> None:
        """It ends inside a batch: the position must be that of the last line written, not of the batch."""
        first = self.logd("consume", "t", "--group", "g", "--max", "10")
        rest = self.logd("consume", "t", "--group", "g", "--exit-at-end")
        self.assertEqual(len(first.splitlines()), 10)
        self.assertEqual(self.lines(first, rest), self.lines(LINES))

    def test_from_counts_only_for_a_new_group(self) -> None:
        """A script may always give it: a group with positions goes on at them."""
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--from", "latest", "--exit-at-end"), b"")
        self.fill("t", b"more\n", 1)
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--from", "earliest", "--exit-at-end"), b"more\n")

    def test_members_share_a_topic_and_hand_over_without_repeats(self) -> None:
        """One is ended by SIGINT, one by SIGTERM; each commits all lines that it wrote before it leaves."""
        one = self.begin("consume", "t", "--group", "g")
        self.until(lambda: len(self.owners()) == 4, "an owner of each partition")
        two = self.begin("consume", "t", "--group", "g")
        self.until(lambda: len(self.owners()) == 4 and len(set(self.owners())) == 2, "two owners")
        self.fill("t", LINES, 3)
        self.until(self.at_end, "positions at the end")
        outputs = []
        for process, number in ((one, signal.SIGINT), (two, signal.SIGTERM)):
            process.send_signal(number)
            out, errors = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, errors), (128 + number, b""))
            outputs.append(out)
        found = self.described()
        self.assertEqual((found["live"], found["consumers"], found["lag_messages"]), (False, [], 0))
        self.assertEqual(self.lines(*outputs), self.lines(LINES, LINES))


class LookingTests(GroupsCliTestCase):
    """The commands ``logd groups list`` and ``logd groups describe``."""

    def test_describe_shows_lag_in_three_units(self) -> None:
        """Bytes, messages and seconds agree with each other, and are 0 once everything was consumed."""
        self.logd("consume", "t", "--group", "g", "--max", "0")
        self.refused(1, (["groups", "describe", "g"], "there is no group 'g'"))
        written = self.logd("consume", "t", "--group", "g", "--max", "100")
        found = self.described()
        self.assertEqual(len(written.splitlines()), 100)
        known = [each for each in found["partitions"] if each["position"] is not None]
        self.assertGreater(len(known), 0)
        for each in known:
            self.assertEqual(each["lag_bytes"], each["log_end"] - each["position"])
            self.assertEqual(each["lag_seconds"] > 0.0, each["lag_bytes"] > 0)
            self.assertLess(each["lag_seconds"], 600)
        if len(known) == 4:
            self.assertEqual(found["lag_messages"], 900)
        found = self.described("--count-below", "0")
        self.assertIn(None, [each["lag_messages"] for each in found["partitions"]])
        self.logd("consume", "t", "--group", "g", "--exit-at-end")
        self.refused(1, (["groups", "describe", "g", "--topic", "nosuch"], "there is no topic 'nosuch'"))
        found = self.described()
        self.assertEqual([found[name] for name in ("lag_bytes", "lag_messages", "lag_seconds")], [0, 0, 0.0])

    def test_list_shows_groups_with_their_topics(self) -> None:
        """Columns are separated by tabs where the output is no terminal, so that `cut` can take them."""
        self.assertEqual(self.logd("groups", "list"), b"")
        self.logd("consume", "t", "--group", "g", "--exit-at-end")
        self.assertEqual(self.logd("groups", "list"), b"g\t0\tt\t4\t\n")
        self.assertEqual(
            json.loads(self.logd("groups", "list", "--json")),
            [{"group": "g", "live": False, "consumers": 0, "topics": ["t"], "positions": 4, "coordinator": None}],
        )
        first = self.logd("groups", "describe", "g").splitlines()[0].split(b"\t")
        self.assertEqual((first[:2], first[4:]), ([b"t", b"0"], [b"0", b"0", b"0.0", b"", b""]))


class WithoutBrokersTests(CommandTestCase):
    """The same commands where no broker, or not even a tree, answers."""

    def test_a_silent_tree_is_status_3_with_the_option(self) -> None:
        """The wait is reported after 3 s already, so that a user does not think that the command hangs."""
        self.env["LOGD_ZOOKEEPER"] = "127.0.0.1:1"
        self.logd("groups", "list", status=3)
        first, second = self.errors.splitlines()
        self.assertIn("no server of 127.0.0.1:1 has answered for 3 s", first)
        self.assertIn("--zookeeper or LOGD_ZOOKEEPER names another one", second)

    def test_positions_are_shown_without_brokers(self) -> None:
        """They are in the tree; only the logs' ends are missing, with the reason and by status 1."""
        with CoordinationProcess(os.path.abspath(self.mktemp())) as tree:
            with BrokerProcess(os.path.abspath(self.mktemp()), ("--id", "5"), zookeeper=tree.hosts) as broker:
                self.env.update(LOGD_ZOOKEEPER=tree.hosts, LOGD_BROKER=broker.address)
                fill_topic(broker.address, "t", [b"1"])
                self.logd("consume", "t", "--group", "g", "--exit-at-end")
            found = json.loads(self.logd("groups", "describe", "g", "--json", status=1))
        self.assertIn("no broker is live", found["partitions"][0]["error"])
        self.assertGreater(found["partitions"][0]["position"], 0)


class ChangingTests(GroupsCliTestCase):
    """The commands ``logd groups reset`` and ``logd groups delete``."""

    def reset(self, *more: str, status: int = 0) -> list[tuple[int | None, int]]:
        """Reset group g; return the old and new positions that it prints."""
        found = json.loads(self.logd("groups", "reset", "g", "--topic", "t", "--yes", "--json", *more, status=status))
        return [(each["old"], each["new"]) for each in found["partitions"]]

    def test_reset_moves_a_group_at_rest(self) -> None:
        """To the start, the end, a time or a position; a dry run changes nothing; the group may be a new one."""
        before = time.time()
        new = self.reset("--to", "latest")
        self.assertEqual([old for old, _ in new], [None] * 4)
        ends = [position for _, position in new]
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--exit-at-end"), b"")
        self.assertEqual(self.reset("--to", "earliest", "--dry-run"), [(end, 0) for end in ends])
        self.assertEqual(self.reset("--to", f"@{before - 3600}"), [(end, 0) for end in ends])
        self.assertEqual(self.lines(self.logd("consume", "t", "--group", "g", "--exit-at-end")), self.lines(LINES))
        second, value = read_partition(self.broker.address, "t", 2)[1]
        self.assertEqual(self.reset("--partition", "2", "--to", str(second)), [(ends[2], second)])
        found = self.logd("consume", "t", "--group", "g", "--max", "1", "--format", "json")
        self.assertEqual(json.loads(found)["value"].encode(), value)

    def test_reset_asks_at_a_terminal(self) -> None:
        """The old and new positions are shown before the question; without a yes nothing is changed."""
        for answer, status, moved in ((b"n\n", 1, []), (b"y\n", 0, ["g"])):
            ours, theirs = os.openpty()
            command = [*LOGD, "groups", "reset", "g", "--topic", "t", "--partition", "1", "--to", "latest"]
            process = start_python(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env)
            os.close(theirs)
            os.write(ours, answer)
            out, errors = process.communicate(timeout=PATIENCE)
            os.close(ours)
            self.assertEqual((process.returncode, out), (status, b"t\t1\t\t0\n"), errors)
            self.assertIn(b"Move group g to these positions?", errors)
            self.assertEqual(self.groups(), moved)

    def test_ctrl_c_at_the_question_changes_nothing(self) -> None:
        """The status is 130, and the error says that nothing was done."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        command = [*LOGD, "groups", "reset", "g", "--topic", "t", "--to", "latest"]
        process = start_python(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env)
        self.addCleanup(process.kill)
        os.close(theirs)
        assert process.stderr is not None
        while not (line := process.stderr.read(1)) or line != b"?":
            self.assertIsNone(process.poll())
        for _ in range(10):  # a signal may come where Python does not check for it; the next one is seen
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                errors = process.communicate(timeout=PATIENCE / 10)[1]
                break
        else:
            self.fail("the question cannot be interrupted")
        self.assertIn(b"interrupted; nothing was done", errors)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.groups(), [])

    def test_reset_refuses_positions_that_are_none(self) -> None:
        """A position must be in the log and at a message's start; each message of a compressed set has one too."""
        self.fill("t", b"a\nb\nc\n", 2, "zstd")
        messages = read_partition(self.broker.address, "t", 2)
        (second, _), (inner, value) = messages[1], messages[-2]
        self.assertEqual(value, b"b")
        self.refused(
            1,
            (["groups", "reset", "g", "--topic", "t", "--partition", "2", "--to", "999999999"], "is not in the log"),
            (["groups", "reset", "g", "--topic", "t", "--partition", "2", "--to", "3"], "inside the message at 0"),
            (["groups", "reset", "g", "--topic", "t", "--partition", "9", "--to", "3"], "no partition 9"),
            (["groups", "reset", "g", "--topic", "u", "--to", "latest"], "there is no topic 'u'"),
        )
        for position in (inner, second):
            self.assertEqual(self.reset("--partition", "2", "--to", str(position))[0][1], position)

    def test_a_live_group_is_reset_only_by_force(self) -> None:
        """With --force its members begin again at the new position, also idle ones, and none commits its old one."""
        consumer = self.begin("consume", "t", "--group", "g")
        assert consumer.stdout is not None
        read = [consumer.stdout.readline() for _ in range(1000)]
        self.refused(
            1,
            (["groups", "reset", "g", "--topic", "t", "--to", "earliest"], "use --force"),
            (["groups", "delete", "g"], "is live"),
        )
        self.until(self.at_end, "positions at the end")  # all is committed: the owner has nothing more to say
        self.reset("--to", "earliest", "--force")
        again = [consumer.stdout.readline() for _ in range(1000)]
        self.assertEqual(sorted(read), sorted(again))
        consumer.send_signal(signal.SIGTERM)
        self.assertEqual(consumer.communicate(timeout=PATIENCE)[0], b"")
        self.assertEqual(self.described()["lag_bytes"], 0)

    def test_a_deleted_group_is_a_new_one_afterwards(self) -> None:
        """A script has to give --yes; all positions are gone, so that the next consumer begins at the start."""
        self.logd("consume", "t", "--group", "g", "--exit-at-end")
        nobody = "Standard input is not a terminal, so nothing was done: give --yes"
        reset = ["groups", "reset", "g", "--topic", "t", "--to", "latest"]
        self.refused(1, (["groups", "delete", "g"], nobody), (reset, nobody))
        self.assertTrue(self.at_end())
        self.assertEqual(self.logd("groups", "delete", "g", "--yes"), b"deleted g with 4 positions\n")
        self.assertEqual(self.groups(), [])
        self.refused(1, (["groups", "delete", "g"], "there is no group 'g'"))
        self.assertEqual(len(self.logd("consume", "t", "--group", "g", "--exit-at-end").splitlines()), 1000)
