"""Compares a schema with the versions of a subject at a compatibility level."""

from __future__ import annotations

from collections.abc import Sequence

from logd.schema_registry.levels import CompatibilityLevel
from logd.schema_registry.loading import SchemaLoader
from logd.schema_registry.schemas import ParsedSchema, incompatibilities
from logd.schema_registry.tree.records import SubjectVersion


async def compare(
    loader: SchemaLoader, new: ParsedSchema, versions: Sequence[SubjectVersion], level: CompatibilityLevel
) -> list[str]:
    """Return the reasons why ``new`` may not follow ``versions``, latest first: those of the first that is violated.

    Raises InvalidSchema for schemas too large to be compared, BrokenRegistry, CoordinationError.
    """
    if level is CompatibilityLevel.NONE or not versions:
        return []
    for version in reversed(versions) if level.transitive else versions[-1:]:
        old = await loader.load(version.id)
        await loader.give_way()
        reasons = incompatibilities(new, old, level)
        if reasons:
            return [
                *reasons,
                f"{{oldSchemaVersion: {version.version}}}",
                f"{{oldSchema: '{old.stored.text}'}}",
                f"{{validateFields: 'false', compatibility: '{level.value}'}}",
            ]
    return []
