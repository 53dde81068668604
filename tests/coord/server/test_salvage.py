"""Tests of salvage from a damaged tree: all sound changes are kept, and every loss is named."""

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
        """Make twenty changes, and stop cleanly."""
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
        """Return what was salvaged, once it is written."""
        self.assertRaises(DataDirectoryError, recover, self.rig.files, FOLDER, lambda text, **fields: None)
        found = survey(self.rig.files, FOLDER)
        write(self.rig.files, FOLDER, found)
        return found

    def data(self) -> dict[str, bytes]:
        """Return the data of the tree's nodes after a start."""
        self.rig.start()
        return {path: node.data for path, node in self.rig.server.tree.nodes.items()}

    def test_the_loss_of_any_record_is_named(self) -> None:
        """All that later records say is kept."""
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

    def test_a_salvaged_tree_goes_on_with_its_sessions(self) -> None:
        """Numbers are not used again, and a second start finds all of it."""
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

    def test_a_lost_session_leaves_no_ephemeral_nodes(self) -> None:
        """Nothing would ever end them."""
        self.flip(1)
        self.salvaged()
        self.assertNotIn("/e", self.data())
        self.assertEqual(dict(self.rig.server.tree.sessions), {})

    def test_a_damaged_head_is_reported(self) -> None:
        """The next start goes on behind all changes that ever were."""
        file = self.rig.files.open(f"{FOLDER}/{changes_name(0)}")
        file.write_at(HEAD_BYTES - 6, b"??")
        found = self.salvaged()
        self.assertIn("head is damaged", found.losses[0])
        last = self.rig.server.last_zxid
        self.data()
        self.assertGreater(self.rig.server.last_zxid, last)

    def test_a_loss_of_power_loses_no_salvaged_change(self) -> None:
        """Power is lost at any moment of the salvage; the damaged tree or the saved one is left."""
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

    def test_a_sound_folder_loses_nothing(self) -> None:
        """An operator who runs salvage by mistake reads of no loss."""
        found = survey(self.rig.files, FOLDER)
        self.assertEqual(found.losses, [])
        self.assertEqual({path: node.data for path, node in found.tree.nodes.items()}, self.before)

    def test_the_damaged_files_are_kept(self) -> None:
        """They have other names, for a second attempt by hand."""
        self.flip(8)
        self.salvaged()
        names = self.rig.files.list(FOLDER)
        self.assertIn(changes_name(0) + ".damaged", names)
        self.assertEqual((numbers_of("changes", names), len(numbers_of("snapshot", names))), ([], 1))
