"""The tables of docs/kafka.md, from the tables in the code: ``python -m logd.broker.kafka.reference docs/kafka.md``.

Each table stands between two comments, ``<!-- requests -->`` and ``<!-- end of requests -->``; the text around them is
written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from logd.broker.kafka.administration.setting_names import KAFKA_SETTINGS, NO_EFFECT
from logd.protocol.kafka.apis import APIS


def page(text: str) -> str:
    """Return the page with its tables written anew. Raises ValueError if a table's comments are missing."""
    for name, lines in (("requests", _requests()), ("acted on", _acted_on()), ("kept", _kept())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        if begin not in text or end not in text:
            raise ValueError(f"the table {name!r} has no place in the page")
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = f"{before}{begin}" + "\n".join(lines) + f"\n{end}{after}"
    return text


def _requests() -> Iterator[str]:
    yield "| Request | Number | Versions |"
    yield "|---|---|---|"
    for key, api in sorted(APIS.items()):
        yield f"| {api.name} | {key} | {api.versions[0]}-{api.versions[-1]} |"


def _acted_on() -> Iterator[str]:
    yield "| Kafka's name | Ours | Meaning |"
    yield "|---|---|---|"
    for row in KAFKA_SETTINGS.values():
        if row.has_effect:
            ours = "none" if row.native is None else f"`{row.native.name}`"
            yield f"| `{row.name}` | {ours} | {row.meaning} |"


def _kept() -> Iterator[str]:
    yield "| Kafka's name | Default | Why it has no effect |"
    yield "|---|---|---|"
    for row in KAFKA_SETTINGS.values():
        if not row.has_effect:
            default = f"`{row.default}`" if row.default else "empty"
            yield f"| `{row.name}` | {default} | {row.meaning.removesuffix(NO_EFFECT)} |"


def main() -> None:
    """Write the tables of the page that is named on the command line."""
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
