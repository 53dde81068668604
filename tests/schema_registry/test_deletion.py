"""Tests of soft deletions, deletions for good, and what they refuse."""

from __future__ import annotations

from logd.schema_registry import deletion
from logd.schema_registry.errors import (
    NoSubjectCompatibility,
    ReferenceExists,
    SchemaNotFound,
    SubjectNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    VersionNotFound,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)
from logd.schema_registry.levels import CompatibilityLevel
from logd.schema_registry.queries import Visibility
from logd.schema_registry.tree import paths
from tests.schema_registry.rig import SchemaRegistryTestCase, record, referring


class DeletionTests(SchemaRegistryTestCase):
    """Two steps, of which the first can be taken back by registering again."""

    def setUp(self) -> None:
        """Make a subject of three versions."""
        super().setUp()
        self.delete = self.registry.deletion
        self.queries = self.registry.queries
        for fields in (("x",), ("x", "y=1"), ("x", "y=1", "z=1")):
            self.register("a", record(*fields))

    def versions(self, visibility: Visibility = Visibility()) -> list[int]:
        """Return the versions of the subject."""
        return [each.version for each in self.outcome(self.queries.versions("a", visibility))]

    def test_a_version_deleted_softly_is_hidden_and_its_id_still_known(self) -> None:
        """Data with the id can still be read; the version after is a new one with the old id."""
        self.assertEqual(self.outcome(self.delete.delete_version("a", 2)), 2)
        self.assertEqual(self.versions(), [1, 3])
        self.assertEqual(self.versions(Visibility(deleted=True)), [1, 2, 3])
        self.assertEqual(self.versions(Visibility(deleted_only=True)), [2])
        self.outcome(self.queries.schema(2))
        self.refusal(self.delete.delete_version("a", 2), VersionSoftDeleted)
        self.assertEqual(self.register("a", record("x", "y=1")), 2)
        self.assertEqual(self.versions(), [1, 3, 4])
        self.require_whole()

    def test_a_version_is_deleted_for_good_after_it_was_deleted_softly(self) -> None:
        """The id is gone with the last version that has it, and is not given out again."""
        self.refusal(self.delete.delete_version("a", 3, permanent=True), VersionNotSoftDeleted)
        self.outcome(self.delete.delete_version("a", None))
        self.outcome(self.delete.delete_version("a", 3, permanent=True))
        self.refusal(self.queries.schema(3), SchemaNotFound)
        self.refusal(self.delete.delete_version("a", 3), VersionNotFound)
        self.assertEqual(self.register("a", record("x", "y=1", "z=1")), 4)
        self.require_whole()

    def test_a_schema_of_two_subjects_outlives_one(self) -> None:
        """Its note of the first is gone."""
        self.register("b", record("x"))
        self.assertEqual(self.outcome(self.delete.delete_subject("a")), [1, 2, 3])
        self.assertEqual(self.outcome(self.delete.delete_subject("a", permanent=True)), [1, 2, 3])
        self.assertEqual(self.outcome(self.queries.versions_of(1)), [("b", 1)])
        self.assertEqual(list(self.require_whole()), [1])

    def test_a_subject_is_deleted_in_two_steps(self) -> None:
        """Its settings go with it; versions begin at 1 again, and ids go on."""
        self.outcome(self.registry.settings.set_compatibility("a", CompatibilityLevel.FULL))
        self.refusal(self.delete.delete_subject("a", permanent=True), SubjectNotSoftDeleted)
        self.outcome(self.delete.delete_subject("a"))
        self.refusal(self.delete.delete_subject("a"), SubjectSoftDeleted)
        self.assertEqual(self.outcome(self.queries.subjects()), [])
        self.assertEqual(self.outcome(self.queries.subjects("", Visibility(deleted=True))), ["a"])
        self.patch(deletion, "BATCH", 2)
        self.assertEqual(self.outcome(self.delete.delete_subject("a", permanent=True)), [1, 2, 3])
        self.refusal(self.delete.delete_subject("a", permanent=True), SubjectNotFound)
        self.refusal(self.registry.settings.compatibility("a"), NoSubjectCompatibility)
        self.assertEqual(self.register("a", record("q")), 4)
        self.assertEqual(self.versions(), [1])
        self.require_whole()

    def test_what_is_referred_to_stays(self) -> None:
        """A soft deletion needs that the referring versions are deleted softly; one for good that they are gone."""
        self.register("b", record("r:R", name="B", **referring(("R", "a", 1))))
        for doing in (self.delete.delete_version("a", 1), self.delete.delete_subject("a")):
            self.refusal(doing, ReferenceExists)
        self.outcome(self.delete.delete_version("a", 2))
        self.outcome(self.delete.delete_subject("b"))
        self.outcome(self.delete.delete_version("a", 1))
        self.refusal(self.delete.delete_version("a", 1, permanent=True), ReferenceExists)
        self.outcome(self.delete.delete_subject("b", permanent=True))
        self.outcome(self.delete.delete_version("a", 1, permanent=True))
        self.require_whole()
        self.outcome(self.delete.delete_subject("a"))
        self.outcome(self.delete.delete_subject("a", permanent=True))
        self.assertEqual(self.read(self.tree.get_children(paths.REFERENCES)), [])
