"""The source system of the invoice pipeline: a shop for made-to-order goods, in three deliveries of JSON lines.

Step 2 changes a price and brings the product that a first purchase asked for too early; step 3 moves a customer and
withdraws a product. Earlier invoices stay as they were written.
"""

from __future__ import annotations

import json
from pathlib import Path

from rivermeet.assets.demo.files import write_file

STEPS = 3
NOT_KNOWN = None
KEYS = {"products": ("product_id",), "customers": ("account_id",), "purchases": ("purchase_id",)}
"""Key columns of each kind of file."""

_COLUMNS = {
    "products": ("product_id", "name", "description", "price", "withdrawn", "at"),
    "customers": ("account_id", "name", "address", "at"),
    "purchases": ("purchase_id", "account_id", "product_id", "quantity", "at"),
}
# Columns and one tuple per line; a product that is withdrawn names nothing but itself.
_RECORDS: dict[int, dict[str, list[tuple[object, ...]]]] = {
    1: {
        "products": [
            ("bowl", "Bowl", "oak, turned by hand", 34.5, False, "2024-05-01T06:00:00Z"),
            ("sign", "House sign", "enamel, up to 12 letters", 58.0, False, "2024-05-01T06:00:00Z"),
        ],
        "customers": [
            ("ines", "Ines Moreau", "4 Quai Vert, Ghent", "2024-05-01T06:00:00Z"),
            ("tomas", "Tomas Berg", "19 Hill Road, Leith", "2024-05-01T06:00:00Z"),
        ],
        "purchases": [
            ("P-1001", "ines", "bowl", 2, "2024-05-01T09:12:00Z"),
            ("P-1002", "tomas", "clock", 1, "2024-05-01T10:40:00Z"),
            ("P-1003", "tomas", "sign", 1, "2024-05-01T16:05:00Z"),
        ],
    },
    2: {
        "products": [
            ("bowl", "Bowl", "oak, turned by hand", 36.0, False, "2024-05-02T06:00:00Z"),
            ("clock", "Wall clock", "slate, engraved", 120.0, False, "2024-05-02T06:00:00Z"),
        ],
        "purchases": [
            ("P-1004", "ines", "bowl", 1, "2024-05-02T08:30:00Z"),
            ("P-1005", "tomas", "clock", 1, "2024-05-02T11:15:00Z"),
            ("P-1006", "rosa", "sign", 1, "2024-05-02T12:00:00Z"),
        ],
    },
    3: {
        "products": [("sign", None, None, None, True, "2024-05-03T06:00:00Z")],
        "customers": [("ines", "Ines Moreau", "7 Rue du Lac, Namur", "2024-05-03T06:00:00Z")],
        "purchases": [
            ("P-1007", "ines", "clock", 1, "2024-05-03T09:45:00Z"),
            ("P-1008", "tomas", "sign", 3, "2024-05-03T13:20:00Z"),
        ],
    },
}


def write(data_root: Path, step: int) -> list[str]:
    """Write one step's files where they are missing; the paths written, relative to ``data_root``."""
    written: list[str] = []
    for source, records in _RECORDS[step].items():
        columns = _COLUMNS[source]
        path = f"invoice/{source}/2024-05-{step:02}.jsonl"
        lines = [json.dumps(dict(zip(columns, record, strict=True))) + "\n" for record in records]
        if write_file(data_root / path, "".join(lines).encode()):
            written.append(path)
    return written
