"""Great Expectations' page templates, made to load nothing from the web.

They name a dozen scripts and styles on other people's servers, a logo that is fetched with the context's id, and a
newsletter. Each template is changed when it is loaded, so that a page names the file that lies beside it instead:

    <script src="https://code.jquery.com/jquery-3.7.1.min.js"></script>
    <script src="{{ site_root }}static/vendor/jquery-3.7.1/jquery.min.js"></script>

An address that is left is an error: a newer Great Expectations may name what is not here.
Held by ``tests/expectations/test_data_docs.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

FILES = Path(__file__).with_name("data_docs_files")
STYLES = "data_docs_custom_styles.css"
"""The name under which pages include styles of a user's own; ours are in its place."""
LOADED = {
    "all.min.css": "fontawesome-free-6.6.0/css/all.min.css",
    "bootstrap-datepicker.min.css": "bootstrap-datepicker-1.9.0/css/bootstrap-datepicker.min.css",
    "bootstrap-datepicker.min.js": "bootstrap-datepicker-1.9.0/js/bootstrap-datepicker.min.js",
    "bootstrap-prefers-dark.css": "bootstrap-dark-1.1.0/css/bootstrap-prefers-dark.min.css",
    "bootstrap-table-filter-control.css": (
        "bootstrap-table-1.19.1/extensions/filter-control/bootstrap-table-filter-control.min.css"
    ),
    "bootstrap-table-filter-control.min.css": (
        "bootstrap-table-1.19.1/extensions/filter-control/bootstrap-table-filter-control.min.css"
    ),
    "bootstrap-table-filter-control.min.js": (
        "bootstrap-table-1.19.1/extensions/filter-control/bootstrap-table-filter-control.min.js"
    ),
    "bootstrap-table.min.css": "bootstrap-table-1.19.1/bootstrap-table.min.css",
    "bootstrap-table.min.js": "bootstrap-table-1.19.1/bootstrap-table.min.js",
    "bootstrap.min.css": "bootstrap-4.3.1/css/bootstrap.min.css",
    "bootstrap.min.js": "bootstrap-4.3.1/js/bootstrap.min.js",
    "jquery-3.7.1.min.js": "jquery-3.7.1/jquery.min.js",
    "popper.min.js": "popper.js-1.12.9/umd/popper.min.js",
}
"""File that a template loads, by the last part of its address, and where it lies below ``static/vendor``."""
NOT_LOADED = re.compile(r"vega(-lite|-embed)?@\d+")
"""Scripts of charts, which no page of ours has."""
_EMPTY = {"cloud-footer.j2", "cta_footer.j2"}
"""Templates that only lead elsewhere: a newsletter, tutorials."""
_TAG = re.compile(r"<(script|link)\b[^>]*?\b(?:src|href)=\"(https?://[^\"]+)\"[^>]*>(?:\s*</script>)?")
_LINK = re.compile(r"<a\b[^>]*\bhref=\"https?://[^\"]*\"[^>]*>(.*?)</a>", re.DOTALL)
_STATIC = re.compile(r"\{% set static_(\w+)_dir = .*?%\}")
_IMAGE = re.compile(r"url\('https?://[^']*'\)")


class DataDocsError(RuntimeError):
    """A page cannot be made to look right without a network."""


def take_offline(environment: Environment, site_root: str) -> None:
    """Make an environment load Great Expectations' templates changed.

    Parameters
    ----------
    site_root
        From the pages that it renders to the site's root, like ``"../../"``.
    """
    from jinja2 import FunctionLoader

    theirs = environment.loader
    assert theirs is not None

    def load(name: str) -> tuple[str, str | None, Any]:
        if name == STYLES:
            return (FILES / "rivermeet.css").read_text(), None, None
        source, file, current = theirs.get_source(environment, name)
        return offline(source, name), file, current

    environment.loader = FunctionLoader(load)
    environment.globals["site_root"] = site_root
    # It would add an id of this installation to each picture's address.
    environment.filters["add_data_context_id_to_url"] = str


def offline(source: str, name: str) -> str:
    """A template that loads nothing from the web; DataDocsError where it names what is not here."""
    if name in _EMPTY:
        return ""
    source = _TAG.sub(lambda tag: _local(tag, name), source)
    source = _STATIC.sub(r'{% set static_\1_dir = site_root ~ "static/\1/" %}', source)
    source = _LINK.sub(r"\1", source)
    source = _IMAGE.sub("none", source)
    left = re.search(r"https?://\S+", source)
    if left:
        raise DataDocsError(f"{name} names {left[0]}, which would be loaded: say in {__name__} what to do with it")
    return source


def _local(tag: re.Match[str], name: str) -> str:
    kind, address = tag[1], tag[2]
    file = address.rsplit("/", 1)[1]
    if NOT_LOADED.fullmatch(file):
        return ""
    if file not in LOADED:
        raise DataDocsError(f"{name} loads {address}: put it into {FILES.name}/vendor and name it in {__name__}")
    here = f"{{{{ site_root }}}}static/vendor/{LOADED[file]}"
    return f'<script src="{here}"></script>' if kind == "script" else f'<link rel="stylesheet" href="{here}">'
