"""What many tests begin with: the files of a delivery."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def csv_file(path: Path, header: str, *lines: str) -> Path:
    """Deliver a file, and the folders that lead there.

    csv_file(data / "orders" / "1.csv", "id,n,at", "a,1,10", "b,2,20")
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in (header, *lines)))
    return path


def json_file(path: Path, *lines: Mapping[str, Any] | str) -> Path:
    """The same of JSON; a text is a line as it stands.

    json_file(data / "people" / "1.jsonl", {"k": "a", "at": 10}, '{"k": "torn')
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path
