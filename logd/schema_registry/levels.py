"""Compatibility levels and modes, with the names of Confluent's registry."""

from __future__ import annotations

import enum


class CompatibilityLevel(enum.Enum):
    """The schemas of a subject that a new one is compared with, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def backward(self) -> bool:
        """The new schema has to read data of the old."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """The old schemas have to read data of the new."""
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def transitive(self) -> bool:
        """All versions are compared, not the latest alone."""
        return self.value.endswith("_TRANSITIVE")


class RegistryMode(enum.Enum):
    """A mode of the registry, or of a subject: the changes that are allowed."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    #: READONLY for all subjects, whatever mode a subject has.
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    #: Schemas are registered with ids that are given, without comparison: for copies of another registry.
    IMPORT = "IMPORT"
