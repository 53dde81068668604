"""Commands at a real broker whose log was lost and begins anew, or has gaps: what they report, and where they go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from logd.coord import paths
from logd.log.disk.names import CHECKPOINT, MARK, segment_name
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.recovery.flush_mark import encode_mark
from logd.protocol.entry import encode_gap
from tests.integration.commands.rig import PATIENCE, CliTestCase

#: First position of a log whose loss was accepted.
ANEW = 1 << 40
LINES = b"".join(b"%03d\n" % number for number in range(100))
ENTRY = 4 + 19 + 3


class LostLogTests(CliTestCase):
    """A topic ``t`` of one partition."""

    def setUp(self) -> None:
        """Fill the topic."""
        super().setUp()
        self.env["LOGD_ZOOKEEPER"] = self.broker.coordination
        self.fill("t", LINES)

    def read_by_group(self) -> None:
        """Let a group read the log to its end."""
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--exit-at-end"), LINES)
        self.assertEqual(self.errors, "")

    def replace_log(self, start: int, size: int = 0, data: bytes = b"") -> None:
        """Replace the partition's log by one of ``size`` bytes from ``start`` on, which begin with ``data``."""
        self.broker.stop()
        folder = Path(self.broker.data, "t-0")
        shutil.rmtree(folder)
        folder.mkdir()
        with folder.joinpath(segment_name(start)).open("wb") as file:
            file.write(data)
            file.truncate(size)
        folder.joinpath(CHECKPOINT).write_bytes(Checkpoint(start, start + size).encode())
        folder.joinpath(MARK).write_bytes(encode_mark(start + size))
        self.broker.start()
        self.env |= {"LOGD_BROKER": self.broker.address, "LOGD_ZOOKEEPER": self.broker.coordination}

    def test_a_group_is_told_of_a_loss_once(self) -> None:
        """`groups describe` shows the loss; a consumer reports it and commits the position behind it, though no message
        comes, so that the next consumer has nothing to report."""
        self.read_by_group()
        self.replace_log(ANEW)
        (lag,) = json.loads(self.logd("groups", "describe", "g", "--json"))["partitions"]
        self.assertEqual((lag["lost"], lag["lag_bytes"], lag["lag_messages"]), ([len(LINES) // 4 * ENTRY, ANEW], 0, 0))
        member = self.begin("consume", "t", "--group", "g")
        self.until(
            lambda: self.node(paths.group_offsets("g", "t")) == {"0": b"%d" % ANEW}, "the position behind the loss"
        )
        member.terminate()
        _, errors = member.communicate(timeout=PATIENCE)
        self.assertEqual(errors.count(b"an unknown number of messages"), 1, errors)
        self.fill("t", b"new\n")
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--exit-at-end"), b"new\n")
        self.assertEqual(self.errors, "")

    def test_a_lost_position_is_refused_with_the_logs_ends(self) -> None:
        """Both `consume --from` and `groups reset --to` name the range that a user may choose from."""
        self.read_by_group()
        self.replace_log(ANEW)
        self.logd("consume", "t", "--partition", "0", "--from", "12", status=1)
        self.assertIn(f"12 is not in the log, which is {ANEW} to {ANEW}", self.errors)
        reset = ("groups", "reset", "g", "--topic", "t", "--partition", "0", "--yes")
        self.logd(*reset, "--to", "12", status=1)
        self.assertIn(f"which is {ANEW} to {ANEW}", self.errors)
        self.logd(*reset, "--to", "earliest")
        (lag,) = json.loads(self.logd("groups", "describe", "g", "--json"))["partitions"]
        self.assertEqual((lag["position"], lag["lost"], lag["lag_bytes"]), (ANEW, None, 0))

    def test_a_consumer_passes_a_gap_of_2_30_bytes_and_reports_it(self) -> None:
        """It reads only the gap's beginning: otherwise the command would take as long as a gigabyte does."""
        size = 1 << 30
        self.replace_log(0, size, encode_gap(size))
        self.fill("t", b"behind\n")
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), b"behind\n")
        self.assertIn(f"1 gap of {size:,} bytes", self.errors)
