"""`rivermeet init`: a project that runs as it is written.

| file | of |
|---|---|
| `rivermeet.toml` | settings, each with a comment |
| `pipelines/shop.py`, `data/` | a stream join, and a few rows for it |
| `tests/test_shop.py` | its test, without an engine |
| `definitions.py` | the pipelines in Dagster |
| `pyproject.toml`, `.gitignore`, `README.md` | the repository around them |

They are templates below ``files/``, whose paths are those of what they write. Held by ``tests/assets/test_init.py``.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from rivermeet.pipelines.errors import RivermeetError

_FILES = Path(__file__).parent / "files"


class InitRefusedError(RivermeetError):
    """No project is written there."""

    remedy = "Name a new folder."


def write_project(folder: Path) -> list[Path]:
    """Write a project into a new or an empty folder.

    Parameters
    ----------
    folder
        Its name becomes the pipeline's, with ``_`` for what is no letter and no digit.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    InitRefusedError
        If the folder is not empty, or no pipeline can have its name.
    """
    import jinja2

    folder = folder.absolute()
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InitRefusedError(f"{folder} is not empty; name a new folder, or one that is empty")
    name = re.sub(r"\W", "_", folder.name, flags=re.ASCII)
    if not re.match(r"[A-Za-z]", name):
        raise InitRefusedError(f"no pipeline can be called {folder.name!r}; name a folder that begins with a letter")
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FILES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    written = []
    for template in sorted(templates.list_templates(extensions=["j2"])):
        path = folder / template.removesuffix(".j2").replace("NAME", name).replace("dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(templates.get_template(template).render(name=name, version=version("rivermeet")), "utf-8")
        written.append(path)
    return written
