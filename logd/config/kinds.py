"""Kinds of settings: each describes and checks the allowed values, and parses one from text."""

from __future__ import annotations

import re
from typing import Protocol

from attrs import frozen

#: int() takes more: blanks, "_" between digits, a plus sign, and the digits of other scripts.
_WHOLE = re.compile(r"-?[0-9]+")
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})\Z")
#: Names of nodes that every client can write down.
_CHROOT = re.compile(r"(/[A-Za-z0-9._-]{1,100}){1,10}\Z")
_ENDPOINT = re.compile(r"[A-Za-z][A-Za-z0-9_]*:.+\Z")
_SERVER = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?"
_HOSTS = re.compile(rf"{_SERVER}(?:,{_SERVER})*(?:/[^\0\s]*)?\Z")
_TOPIC = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,200}\Z")
_NAMES = re.compile(r"[A-Za-z0-9_-]{1,100}(?:,[A-Za-z0-9_-]{1,100})*\Z")
_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT`` (an IPv6 address in brackets) into its parts. Raises ValueError."""
    match = _ADDRESS.match(text)
    port = int(match["port"]) if match else 0
    if not match or not 1 <= port <= 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return match["ipv6"] or match["host"], port


class Kind(Protocol):
    """One kind of value."""

    @property
    def allowed(self) -> str:
        """The allowed values, as the end of a sentence that begins "allowed is"."""
        ...

    def accepts(self, value: object) -> bool:
        """Return True if ``value``, as a TOML file gives it, is allowed."""
        ...

    def parse(self, text: str) -> object:
        """Parse a value of a command line. Raises ValueError if malformed; the value may still be refused."""
        ...


@frozen
class Whole:
    """A whole number from ``minimum`` to ``maximum``; ``none`` is the meaning of -1, if -1 is allowed."""

    minimum: int
    maximum: int
    unit: str = ""
    none: str = ""

    @property
    def allowed(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        minus_one = f", or -1 for {self.none}" if self.none else ""
        return f"a whole number{' of' + unit if unit else ''} from {self.minimum} to {self.maximum}{minus_one}"

    def accepts(self, value: object) -> bool:
        if type(value) is not int:  # True is an int to isinstance
            return False
        return self.minimum <= value <= self.maximum or (bool(self.none) and value == -1)

    def parse(self, text: str) -> object:
        if not _WHOLE.fullmatch(text):
            raise ValueError(text)
        return int(text)


@frozen
class Switch:
    """True or false."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str) -> object:
        try:
            return _SWITCH[text.lower()]
        except KeyError:
            raise ValueError(text) from None


@frozen
class SwitchOr(Switch):
    """True, false, or one word for a choice between the two."""

    word: str

    @property
    def allowed(self) -> str:
        return f"true, false or {self.word}"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool) or value == self.word

    def parse(self, text: str) -> object:
        return self.word if text.lower() == self.word else super().parse(text)


class Text:
    """Text of some form: the base of the kinds below."""

    def parse(self, text: str) -> object:
        return text


@frozen
class OneOf(Text):
    """One of some words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return " or ".join(self.words)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words


@frozen
class Names(Text):
    """Names separated by commas, or nothing."""

    meaning: str
    #: The form of the whole text.
    form: re.Pattern[str] = _NAMES

    @property
    def allowed(self) -> str:
        return f"{self.meaning}, separated by commas"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and (not value or self.form.match(value) is not None)


@frozen
class TopicName(Text):
    """The name of a topic: see ``logd.topic``."""

    @property
    def allowed(self) -> str:
        return "the name of a topic: 1 to 200 of the characters A-Z a-z 0-9 . _ -"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and _TOPIC.match(value) is not None


@frozen
class Folder(Text):
    """The path of a directory."""

    @property
    def allowed(self) -> str:
        return "the path of a directory"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value != "" and "\0" not in value


@frozen
class PemFile(Text):
    """The path of a file, which need not exist until it is read."""

    what: str = "a file in PEM"

    @property
    def allowed(self) -> str:
        return f"the path of {self.what}"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value != "" and "\0" not in value


@frozen
class Secret(Text):
    """Text of the form NAME:PASSWORD, never shown."""

    form: str

    @property
    def allowed(self) -> str:
        return self.form

    def accepts(self, value: object) -> bool:
        if not isinstance(value, str) or "\n" in value:
            return False
        name, _, password = value.partition(":")
        return bool(name and password)


@frozen
class Endpoint(Text):
    """A Twisted server endpoint; only its rough form is checked here."""

    example: str

    @property
    def allowed(self) -> str:
        return f"the description of a Twisted server endpoint, such as {self.example!r}"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and _ENDPOINT.match(value) is not None


@frozen
class Chroot(Text):
    """A node of the coordination tree, not the root."""

    @property
    def allowed(self) -> str:
        return "the path of a node of the coordination tree, such as '/kafka07'"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and _CHROOT.match(value) is not None


@frozen
class Address(Text):
    """A host and a port."""

    @property
    def allowed(self) -> str:
        return "HOST:PORT with a port from 1 to 65535 (an IPv6 address in brackets: '[::1]:6667')"

    def accepts(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        try:
            parse_address(value)
        except ValueError:
            return False
        return True


@frozen
class AddressOrNone(Address):
    """A host and a port, or a dash for none."""

    @property
    def allowed(self) -> str:
        return f"{super().allowed}, or - for none"

    def accepts(self, value: object) -> bool:
        return value == "-" or super().accepts(value)


@frozen
class OneOrMore:
    """One value of a kind, or a list of them. A command line gives each by an option of its own."""

    kind: Kind
    most: int

    @property
    def allowed(self) -> str:
        return f"{self.kind.allowed}; or a list of at most {self.most} such texts"

    def accepts(self, value: object) -> bool:
        if isinstance(value, (list, tuple)):
            return 0 < len(value) <= self.most and all(map(self.kind.accepts, value))
        return self.kind.accepts(value)

    def parse(self, text: str) -> object:
        return self.kind.parse(text)


@frozen
class Hosts(Text):
    """The servers of a coordination tree; only their rough form is checked here."""

    @property
    def allowed(self) -> str:
        return (
            "HOST:PORT, or several separated by commas, optionally followed by a path, as in 'zk1:2181,zk2:2181/logd'"
        )

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and _HOSTS.match(value) is not None
