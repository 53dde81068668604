"""Answers of a schema registry, read and judged without I/O: the Twisted client and Spark's blocking one share them."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from logd.checkedjson import load_json
from logd.errors import LogdError

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
#: Bytes of an answer; a longer one is none of a registry.
MOST_ANSWER_BYTES = 4 << 20
#: References of references.
MOST_LEVELS = 32
#: Codes of a subject, a version and a schema that the registry does not have.
UNKNOWN = (40401, 40402, 40403)


class RegistryUnavailable(LogdError):
    """The registry cannot be reached, or does not answer in time, or answers nonsense; the same may succeed later."""


class RegistryRefusal(LogdError):
    """The registry refused a request; ``code`` is Confluent's code, such as 40403 or 409."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@frozen
class RegisteredSchema:
    """A schema as the registry has it: ``text`` is JSON, ``references`` are subjects with versions."""

    text: str
    type: str
    references: tuple[tuple[str, int], ...]


def read_answer(where: str, status: int, data: bytes) -> Any:
    """Return the JSON of an answer to a request for ``where``, a URL.

    Raises RegistryUnavailable for what no registry answers and for its own failures, RegistryRefusal for a refusal.
    """
    if status in (401, 403):
        raise RegistryRefusal(f"{where}: HTTP status {status}: the user or the password is missing or wrong", status)
    try:
        value = load_json(data)
    except ValueError as error:
        raise RegistryUnavailable(f"{where} answers what no registry does: {error}") from None
    if status != 200:
        value = value if isinstance(value, dict) else {}
        code = value.get("error_code", status)
        text = f"{where}: {value.get('message', f'HTTP status {status}')} (code {code})"
        if status >= 500:
            raise RegistryUnavailable(text)
        raise RegistryRefusal(text, code if isinstance(code, int) else status)
    return value


def read_schema(url: str, answer: Any) -> RegisteredSchema:
    """Return the schema in an answer. Raises RegistryUnavailable if there is none."""
    try:
        text, kind, listed = answer.get("schema"), answer.get("schemaType", "AVRO"), answer.get("references") or []
        if not isinstance(text, str) or not isinstance(kind, str):
            raise ValueError("no schema")
        references = tuple((str(each["subject"]), int(each["version"])) for each in listed)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RegistryUnavailable(f"{url} answers what no registry does: {error}") from None
    return RegisteredSchema(text, kind, references)


def no_answer(url: str, error: BaseException) -> RegistryUnavailable:
    """Return the error for a registry that cannot be reached."""
    return RegistryUnavailable(
        f"the schema registry at {url} does not answer: {_in_words(error)}; is it running, and is that its address?"
    )


def _in_words(error: BaseException) -> str:
    """Return an error's text. Twisted's ResponseNeverReceived has a list of the failures behind it in place of one."""
    reasons = getattr(error, "reasons", None) or ()
    texts = [reason.getErrorMessage() for reason in reasons] if reasons else [str(error)]
    return ", ".join(filter(None, texts)) or type(error).__name__
