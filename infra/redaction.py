"""Credentials in URLs: blotted out wherever a location or an engine's address is shown.

| given | shown |
|---|---|
| ``s3a://key:secret@lake/river`` | ``s3a://***@lake/river`` |
| ``sc://host:15002/;user_id=ann;token=abc`` | ``sc://host:15002/;user_id=ann;token=***`` |
| ``jdbc:postgresql://db/shop?user=ann&password=abc`` | ``jdbc:postgresql://db/shop?user=ann&password=***`` |
| ``abfss://container@account.dfs.core.windows.net/x`` | the same: the part before the @ names a container |

Held by ``tests/infra/engine/test_doors.py``.
"""

from __future__ import annotations

import re

_END = r"\s'\"`"
_USER = re.compile(
    rf"(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://(?:[^/@{_END}]*:(?!\d+/)[^@{_END}]*|[^/@{_END}]+)@", re.IGNORECASE
)
_PARAMETER = re.compile(
    rf"([;?&][\w.-]*(?:token|secret|passw|pwd|key|sig|credential)[\w.-]*=)[^;&{_END}]+", re.IGNORECASE
)


def redact(text: str) -> str:
    """Text with ``***`` for what URLs in it hold of users, passwords, keys and tokens."""
    return _PARAMETER.sub(r"\1***", _USER.sub("://***@", text))
