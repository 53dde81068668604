"""``logd verify``: checks every checksum in a data directory with an implementation independent of the broker's."""

from __future__ import annotations

import json

import click

from logd.cli.files.inspection import inspect
from logd.cli.options import json_option
from logd.cli.terminal.exits import FAILED, exit_on_error
from logd.log.disk.local_files import LocalFiles
from logd.protocol.checksums import INDEPENDENT_CHECKSUMS

_EPILOG = """\b
Examples:
  logd verify /var/lib/logd
  logd verify /var/lib/logd/clicks-0
  logd verify /var/lib/logd/clicks-0/00000000000000000000.log --json
"""


@click.command(epilog=_EPILOG)
@click.argument("path", type=click.Path(exists=True))
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress and no harmless findings.")
@click.pass_context
def verify(ctx: click.Context, /, path: str, as_json: bool, quiet: bool) -> None:
    """Check everything in PATH: a data directory, a partition's folder in one, or one segment file.

    Checksums are computed by crcmod, which is independent of the broker's zlib, and slower. Each damage is reported by
    file, position and id. Indexes, checkpoints, meta and topics.json are compared with the segments, and files that
    are not logd's are reported.

    Nothing is locked or changed, so a broker may be using the directory. Entries after its last checkpoint are checked
    too, but may be incomplete, which is harmless.

    The exit status is 1 when anything is wrong.
    """
    with exit_on_error():
        found = inspect(LocalFiles(), path, INDEPENDENT_CHECKSUMS, "verifying", quiet)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        for finding in found.findings:
            if finding.damage.kind.is_wrong or not quiet:
                click.echo(("" if finding.damage.kind.is_wrong else "note: ") + finding.text)
        for remark in found.remarks:
            if remark.wrong or not quiet:
                click.echo(("" if remark.wrong else "note: ") + f"{remark.path} {remark.text}")
        click.echo(f"{'sound' if found.is_sound else 'NOT SOUND'}: {found.summary}")
    if not found.is_sound:
        ctx.exit(FAILED)
