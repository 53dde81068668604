"""Tests of the coordination tree's paths."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.coord import paths


class PathsTests(SynchronousTestCase):
    """Each path is the one that other programs know."""

    def test_every_path_is_the_one_in_the_documents(self) -> None:
        """The paper's layout, and ours below it, are written out here."""
        for path, expected in (
            (paths.broker(3), "/brokers/ids/3"),
            (paths.topic("clicks"), "/brokers/topics/clicks"),
            (paths.partition_state("clicks", 7), "/brokers/topics/clicks/partitions/7/state"),
            (paths.deleted_topic("some-uuid"), "/brokers/deleted/some-uuid"),
            (paths.CONTROLLER, "/controller"),
            (paths.group_consumers("g"), "/consumers/g/ids"),
            (paths.group_consumer("g", "host-1"), "/consumers/g/ids/host-1"),
            (paths.group_owner("g", "clicks", 0), "/consumers/g/owners/clicks/0"),
            (paths.group_offset("g", "clicks", 12), "/consumers/g/offsets/clicks/12"),
        ):
            self.assertEqual(path, expected)

    def test_a_nodes_path_begins_with_its_parents(self) -> None:
        """A listing of owners or offsets therefore finds what was stored."""
        self.assertEqual(paths.group_owner("g", "t", 1), paths.group_owners("g", "t") + "/1")
        self.assertEqual(paths.group_offset("g", "t", 1), paths.group_offsets("g", "t") + "/1")
        self.assertTrue(paths.group_consumers("g").startswith(paths.group("g") + "/"))

    def test_a_name_that_leads_elsewhere_is_refused(self) -> None:
        """A topic or group called ``..`` must not reach another part of the tree."""
        for name in ("", ".", "..", "a/b", "/", "a\0"):
            with self.assertRaises(ValueError):
                paths.group(name)
            with self.assertRaises(ValueError):
                paths.group_consumer("g", name)
            with self.assertRaises(ValueError):
                paths.topic(name)
