"""Tests of what is saved of a damaged tree: all that is sound, and nothing is lost without a word."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.storage.change_file import HEAD_BYTES, decode_head, find_records
from logd.coord.server.storage.folder import changes_name, numbers_of
from logd.coord.server.storage.recovery import recover
from logd.coord.server.storage.salvage import Salvage, survey, write
from logd.coord.server.wire.opcodes import Opcode
from logd.errors import DataDirectoryError
from tests.coord.server.rig import FOLDER, Rig, create, set_data
from tests.coord.server.test_server import come_back


class SalvageTests(SynchronousTestCase):
    """A tree with positions, of which one record is damaged."""

    def setUp(self) -> None:
        """Twenty changes, and a clean stop."""
        self.rig = Rig()
        self.client = self.rig.client()
        for number in range(3):
            self.rig.ask(self.client, Opcode.CREATE, create(f"/position{number}", b"0"))
        for position in range(1, 6):
            for number in range(3):
                self.rig.ask(self.client, Opcode.SET_DATA, set_data(f"/position{number}", b"%d" % position))
        self.rig.ask(self.client, Opcode.CREATE, create("/e", flags=1))
        self.before = {path: node.data for path, node in self.rig.server.tree.nodes.items()}
        self.stop()

    def stop(self) -> None:
        """Stop the server."""
        self.rig.server.stop()
        self.rig.settle()
        self.rig.clock.advance(1)

    def flip(self, zxid: int, name: str = changes_name(0)) -> None:
        """Flip a byte in the middle of a record."""
        file = self.rig.files.open(f"{FOLDER}/{name}")
        data = file.read_at(0, file.size())
        head = decode_head(data)
        assert head is not None
        record = next(each for each in find_records(data, head) if each.zxid == zxid)
        at = (record.at + record.end) // 2
        file.write_at(at, bytes([data[at] ^ 0x10]))
        file.close()

    def salvaged(self) -> Salvage:
        """What is found, once it was written."""
        self.assertRaises(DataDirectoryError, recover, self.rig.files, FOLDER, lambda text, **fields: None)
        found = survey(self.rig.files, FOLDER)
        write(self.rig.files, FOLDER, found)
        return found

    def data(self) -> dict[str, bytes]:
        """What the tree has after a start."""
        self.rig.start()
        return {path: node.data for path, node in self.rig.server.tree.nodes.items()}

    def test_any_record(self) -> None:
        """Whichever is damaged, the loss is named, and all that later records say is there."""
        for zxid in range(1, self.rig.server.last_zxid + 1):
            self.setUp()
            self.flip(zxid)
            found = self.salvaged()
            self.assertIn(f"{zxid:#x}", " ".join(found.losses))
            data = self.data()
            for number in range(3):
                self.assertIn(data[f"/position{number}"], (b"5", b"4"), zxid)
                if data[f"/position{number}"] != b"5":
                    self.assertIn(f"/position{number}", " ".join(found.losses))
            self.assertTrue(self.rig.client().session is not None)

    def test_goes_on(self) -> None:
        """Sessions are kept, numbers are not used again, and a second start finds all of it."""
        self.flip(8)
        last = self.rig.server.last_zxid
        self.salvaged()
        self.assertEqual(self.data(), self.before)
        self.assertGreater(self.rig.server.last_zxid, last)
        client = self.rig.client(come_back(self.client, last_zxid=last))
        assert client.session is not None and self.client.session is not None
        self.assertEqual(client.session.session_id, self.client.session.session_id)
        self.assertEqual(self.rig.ask(client, Opcode.CREATE, create("/later"))[2], 0)
        self.stop()
        self.assertEqual(set(self.data()), {*self.before, "/later"})

    def test_session_lost(self) -> None:
        """Where a session's beginning is lost, its ephemeral nodes are not made: nothing would end them."""
        self.flip(1)
        self.salvaged()
        self.assertNotIn("/e", self.data())
        self.assertEqual(dict(self.rig.server.tree.sessions), {})

    def test_head(self) -> None:
        """Where a file's head is damaged that is said, and the next start goes on behind all that ever was."""
        file = self.rig.files.open(f"{FOLDER}/{changes_name(0)}")
        file.write_at(HEAD_BYTES - 6, b"??")
        found = self.salvaged()
        self.assertIn("head is damaged", found.losses[0])
        last = self.rig.server.last_zxid
        self.data()
        self.assertGreater(self.rig.server.last_zxid, last)

    def test_power_lost(self) -> None:
        """A loss of power at any moment leaves the damaged tree, or the saved one."""
        for power in range(1, 12):
            for seed in range(10):
                self.setUp()
                self.flip(8)
                self.rig.files.random = Random(seed)
                found = survey(self.rig.files, FOLDER)
                self.rig.files.power = power
                try:
                    write(self.rig.files, FOLDER, found)
                except BaseException as error:
                    self.assertEqual(type(error).__name__, "PowerLoss")
                self.rig.files.restart(True)
                again = survey(self.rig.files, FOLDER)
                if again.losses:
                    write(self.rig.files, FOLDER, again)
                self.assertEqual(self.data(), self.before)

    def test_sound(self) -> None:
        """Of a sound folder nothing is said to be lost."""
        found = survey(self.rig.files, FOLDER)
        self.assertEqual(found.losses, [])
        self.assertEqual({path: node.data for path, node in found.tree.nodes.items()}, self.before)

    def test_kept(self) -> None:
        """The files of before are there under other names."""
        self.flip(8)
        self.salvaged()
        names = self.rig.files.list(FOLDER)
        self.assertIn(changes_name(0) + ".damaged", names)
        self.assertEqual((numbers_of("changes", names), len(numbers_of("snapshot", names))), ([], 1))
