"""A payload format of another package as one value: what declares it, and what makes text of its payloads.

    @dataclass(frozen=True)
    class Pairs(OtherFormat): ...                    the declaration, in a pipeline: Kafka("news", value=Pairs({…}))

    def decoder(format, registry): ...               what gives ``{"id": "a"}`` of the payload ``id=a``

    FORMAT = PayloadFormat(Pairs, decoder)           and `register(FORMAT)`, or an entry point ``rivermeet.formats``

A payload's text is one JSON object; what of it is declared gets its type as a field of a JSON payload does. Held by
``tests/project/test_entry_points.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from rivermeet.infra.kafka.formats.framing import Decode
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines.errors import NotFoundError
from rivermeet.pipelines.reads.kafka import OtherFormat

GROUP = "rivermeet.formats"
"""Entry points of other packages: each names a `PayloadFormat`."""


@dataclass(frozen=True)
class PayloadFormat:
    """A format of keys and values of topics.

    Attributes
    ----------
    declaration
        The class of its declarations.
    decoder
        What gives the text of payloads of one: it is asked once for a source. A payload that is not of the format is
        an `UndecodableError`, whose message is the reason of a dead letter, behind "the value".
    """

    declaration: type[OtherFormat]
    decoder: Callable[[Any, Registry], Decode]


def register(format: PayloadFormat) -> None:
    """Add a format, in place of one with the same declaration."""
    _load_kinds()[format.declaration] = format


def other_decode(declared: OtherFormat, registry: Registry) -> Decode:
    """What gives the text of payloads of this format; raises `NotFoundError` if it is not installed."""
    found = _load_kinds().get(type(declared))
    if found is None:
        name = type(declared).__name__
        raise NotFoundError(
            f"no format that is installed is declared by a {name}: install the package that it comes from, or register "
            "its PayloadFormat",
            format=name,
        )
    return found.decoder(declared, registry)


@cache
def _load_kinds() -> dict[type[OtherFormat], PayloadFormat]:
    found: list[PayloadFormat] = [entry.load() for entry in entry_points(group=GROUP)]
    return {format.declaration: format for format in found}
