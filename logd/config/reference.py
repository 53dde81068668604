"""The page docs/configuration.md, written from the table of settings by ``python -m logd.config.reference``."""

from __future__ import annotations

import attrs

from logd.config.broker import BrokerSettings
from logd.config.log import LogSettings
from logd.config.setting import Setting, settings_of
from logd.config.zookeeper import ZooKeeperSecurity

_HEAD = """\
# Configuration of a broker

This page is written by `python -m logd.config.reference > docs/configuration.md`; a test holds it to the code.

A setting is looked for in three places; the later one counts:

1. the file of `--config FILE.toml`;
2. `--set key=value`, once for each setting;
3. the options `--data`, `--listen`, `--advertise`, `--id` and `--http`, which are the settings of these names, and
   `--zookeeper` and `--zookeeper-listen`, which are `zookeeper.hosts` and `zookeeper.listen`.

A broker joins the coordination tree of `zookeeper.hosts`, or serves its own at `zookeeper.listen`: to set both is an
error. The environment's `LOGD_ZOOKEEPER` is `zookeeper.hosts` where none of the three places sets either. Where it
names the very address at which this broker would serve its own tree, it is there for the commands, and the broker
serves that tree, unless its data directory has joined another tree before. The log says whether the broker serves or
joins a tree, and why.

`LOGD_ZOOKEEPER_TLS_ENABLED`, `LOGD_ZOOKEEPER_DIGEST_FILE` and so on are the settings of *Coordination* below; the
commands of `logd` that work on the coordination tree read the same variables.

In the file a dotted name may stand as it is or as a table: these two say the same.

```toml
retention.ms = 86400000
retention.bytes = 10000000000
```

```toml
[retention]
ms = 86400000
bytes = 10000000000
```

A key that is unknown or a value that is not allowed stops the broker before it touches anything; the error names the
key, the value and what is allowed. Relative paths are relative to the working directory.
"""

_COORDINATION = """
## Coordination

How the coordination tree is reached beyond its address; brokers, commands and groups of consumers mean the same by it.
"""

_LOGS = """
## Logs

These are the defaults for every topic. A topic may have its own, given when it is created:
`logd topics create clicks --set retention.ms=3600000`.
"""

_LIMITS = """
## What must fit together

`message.bytes` must be smaller than `frame.bytes` by at least 1024 bytes, the room for what stands around a message in
a request, and than `fetch.max.bytes` by at least 4, so that every message can be fetched. `frames.bytes` must be larger
than `frame.bytes` by at least 1 MiB, so that a connection alone can send the largest request.
"""


def _shown(row: Setting) -> str:
    if row.required:
        return "required"
    if row.default is None:
        return "none"
    return f"`{str(row.default).lower() if isinstance(row.default, bool) else row.default}`"


def _table(cls: type[attrs.AttrsInstance]) -> str:
    rows = "".join(
        f"| `{row.name}` | {_shown(row)} | {row.meaning} | {row.kind.allowed} |\n" for row in settings_of(cls)
    )
    return f"\n| setting | default | meaning | allowed |\n|---|---|---|---|\n{rows}"


def page() -> str:
    """The whole page, as Markdown."""
    own = f"{_table(BrokerSettings)}{_COORDINATION}{_table(ZooKeeperSecurity)}"
    return f"{_HEAD}\n## Broker\n{own}{_LOGS}{_table(LogSettings)}{_LIMITS}"


if __name__ == "__main__":
    print(page(), end="")
