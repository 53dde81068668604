"""The fenced blocks of a Markdown page, and the comments above them that instruct the test.

A comment in the line before a fence is only for the test; readers of the built page do not see it:

    <!-- not run: REASON -->        the block needs something that no test has; the reason is printed
    <!-- first: COMMANDS -->        a shell first makes things that the page presupposes, such as files to collect
    <!-- then: COMMANDS -->         a shell then checks the block's effect; a status other than 0 is a failure
    <!-- continues -->              the Python continues that of the block before: both are one program
    <!-- stop -->                   commands in other terminals are ended by Ctrl-C before the block

The language decides the use of a block. `console` is a terminal: a line behind `$ ` is typed, one behind `> ` goes on
with it, and the others are its output. `sh` is a script. A word behind the language is the name of a file, in which the
block is saved for later blocks (`python alarms.tac`); `python` without a name is a program that is run. `toml` is a
broker's settings file, `ini` a unit of systemd. Layouts and drawings are `text`, and byte tables `vectors` and `tree`,
which have tests of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

ROOT = Path(__file__).resolve().parent.parent.parent
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)$")
_COMMENT = re.compile(r"^<!-- (?P<word>not run|first|then|continues|stop)(?:: (?P<text>.*))? -->$")

#: Languages whose blocks are not run: drawings, and tables of bytes that other tests read.
SHOWN = frozenset({"text", "vectors", "tree"})
#: Languages whose blocks are run, saved or checked.
RUN = frozenset({"console", "sh", "python", "toml", "ini"})


@frozen
class Block:
    """One fenced block."""

    line: int
    language: str
    #: The file's name that stands behind the language; empty for none.
    name: str
    text: str
    #: The comments above it: the word of each, and its text.
    comments: tuple[tuple[str, str], ...] = ()

    def comment(self, word: str) -> str | None:
        """Return the text of the comment with this word, None without one."""
        return next((text for found, text in self.comments if found == word), None)


@frozen
class Typed:
    """One command of a terminal, and the output that the page shows."""

    command: str
    shown: tuple[str, ...] = field(default=())


def pages() -> list[Path]:
    """Return the README and the pages of docs/, in the order in which they are read."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the blocks of a page. Raises ValueError for a fence that is not closed, or a language that is not known."""
    lines = text.split("\n")
    number, comments = 0, []
    while number < len(lines):
        line = lines[number]
        number += 1
        comment = _COMMENT.match(line)
        fence = _FENCE.match(line)
        if comment is not None:
            comments.append((comment["word"], comment["text"] or ""))
        elif fence is not None:
            begin = number
            while number < len(lines) and lines[number].strip() != "```":
                number += 1
            if number == len(lines):
                raise ValueError(f"line {begin}: the fence is not closed")
            body = [each.removeprefix(fence["indent"]) for each in lines[begin:number]]
            number += 1
            language, _, name = fence["info"].strip().partition(" ")
            if language not in SHOWN | RUN:
                raise ValueError(
                    f"line {begin}: {language!r} is no language of a block; see tests/documentation/pages.py"
                )
            yield Block(begin, language, name.strip(), "\n".join(body) + "\n", tuple(comments))
            comments = []
        elif comments and line.strip():
            raise ValueError(f"line {number}: a comment for the test stands above a fence")
    if comments:
        raise ValueError("a comment for the test stands at the end of the page")


def indented(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line that begins a sample by its indent alone, outside lists and fences."""
    fenced, listed, before = False, False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            if re.match(r"( *)([-*]|\d+\.) ", line):
                listed = True
            elif line.strip() and not line.startswith(" "):
                listed = False
            if line.startswith("    ") and not before.strip() and not listed:
                yield number, line
        before = line


def typed(block: Block) -> list[Typed]:
    """Return the commands of a terminal. Raises ValueError for a block that does not begin with one."""
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif not commands:
            raise ValueError(f"line {block.line}: a terminal begins with a command behind '$ '")
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", [])
        else:
            commands[-1][1].append(line)
    return [Typed(command, tuple(shown)) for command, shown in commands]
