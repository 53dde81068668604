"""Settings of Sphinx for the documents as a site: ``make site`` builds it, and every warning is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

from logd import __version__

_ROOT = Path(__file__).resolve().parent.parent
#: Pages of the site whose text stands at the top of the project, where readers of a checkout look for it.
_FROM_TOP = {"architecture": "ARCHITECTURE.md", "contributing": "CONTRIBUTING.md"}

project = "logd"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"logd {__version__}"
highlight_language = "none"

# Links between pages name files and headings as GitHub does.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"


def _read(app: Any, name: str, source: list[str]) -> None:
    """Adapt a page that is read on GitHub as well to the site."""
    if name in ("index", "design/index"):
        # The page itself lists the others, in their order: the table of contents is made of that list.
        pages = re.findall(r"^- \[[^]]*\]\(([\w/-]+)\.(?:md|rst)\)", source[0], re.M)
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"
    if name in _FROM_TOP:
        text = (_ROOT / _FROM_TOP[name]).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        text = re.sub(r"\[([^]]*)\]\(LICENSE\)", r"\1", text)
        source[0] = re.sub(r"\]\((?:ARCHITECTURE|CONTRIBUTING)\.md", lambda found: found[0].lower(), text)


def setup(app: Any) -> None:
    """Register with Sphinx what it does not have."""
    app.connect("source-read", _read)
    for shown in ("vectors", "tree"):  # tables of bytes and of paths in docs/protocol.md
        app.add_lexer(shown, TextLexer)
