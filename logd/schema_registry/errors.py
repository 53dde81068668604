"""The errors of the schema registry: each class has the HTTP status and the code that Confluent's registry answers."""

from __future__ import annotations

from typing import ClassVar

from logd.errors import LogdError


class SchemaRegistryError(LogdError):
    """Base of what the registry refuses; the text names the subject, version or schema."""

    status: ClassVar[int] = 500
    code: ClassVar[int] = 50001


class SubjectNotFound(SchemaRegistryError):
    """No schema is registered under that subject."""

    status, code = 404, 40401

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' not found.")


class VersionNotFound(SchemaRegistryError):
    """The subject has no such version."""

    status, code = 404, 40402

    def __init__(self, version: int | str) -> None:
        super().__init__(f"Version {version} not found.")


class SchemaNotFound(SchemaRegistryError):
    """There is no schema with that id, or the subject has no such schema."""

    status, code = 404, 40403


class SubjectSoftDeleted(SchemaRegistryError):
    """The subject is deleted already, softly."""

    status, code = 404, 40404

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


class SubjectNotSoftDeleted(SchemaRegistryError):
    """A subject is deleted softly before it is deleted for good."""

    status, code = 404, 40405

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' was not deleted first before being permanently deleted")


class VersionSoftDeleted(SchemaRegistryError):
    """The version is deleted already, softly."""

    status, code = 404, 40406

    def __init__(self, subject: str, version: int) -> None:
        super().__init__(
            f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
        )


class VersionNotSoftDeleted(SchemaRegistryError):
    """A version is deleted softly before it is deleted for good."""

    status, code = 404, 40407

    def __init__(self, subject: str, version: int) -> None:
        super().__init__(
            f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
        )


class NoSubjectCompatibility(SchemaRegistryError):
    """The subject has no compatibility level of its own."""

    status, code = 404, 40408

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' does not have subject-level compatibility configured")


class NoSubjectMode(SchemaRegistryError):
    """The subject has no mode of its own."""

    status, code = 404, 40409

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' does not have subject-level mode configured")


class InvalidSchema(SchemaRegistryError):
    """The text is no schema of its type, or refers to something that is not there, or exceeds a limit."""

    status, code = 422, 42201


class InvalidVersion(SchemaRegistryError):
    """A version is a number from 1 to 2^31 - 1, or "latest"."""

    status, code = 422, 42202

    def __init__(self, version: str) -> None:
        super().__init__(
            f"The specified version '{version[:100]}' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"'
        )


class InvalidCompatibilityLevel(SchemaRegistryError):
    """There is no such compatibility level."""

    status, code = 422, 42203


class InvalidMode(SchemaRegistryError):
    """There is no such mode."""

    status, code = 422, 42204


class OperationNotPermitted(SchemaRegistryError):
    """The mode of the subject or of the registry does not permit that."""

    status, code = 422, 42205


class ReferenceExists(SchemaRegistryError):
    """Another schema refers to the version that was to be deleted."""

    status, code = 422, 42206


class InvalidSubject(SchemaRegistryError):
    """The name is not accepted for a subject."""

    status, code = 422, 42208


class IncompatibleSchema(SchemaRegistryError):
    """The schema is incompatible with an earlier one; the text has the reasons."""

    status, code = 409, 409


class RegistryBusy(SchemaRegistryError):
    """The registry could not carry that out now; the same request may succeed later."""

    status, code = 503, 50302


class TreeUnavailable(SchemaRegistryError):
    """The coordination tree does not answer; the change may or may not have been made, and can be repeated safely."""

    status, code = 500, 50002


class BrokenRegistry(SchemaRegistryError):
    """A node of the registry holds what the registry does not write; the text names it."""

    status, code = 500, 50001


class MalformedRequest(SchemaRegistryError):
    """The body is not the JSON object that the request needs."""

    status, code = 400, 400


class InvalidParameter(SchemaRegistryError):
    """A parameter in the address is neither true nor false, or no number."""

    status, code = 400, 40001
