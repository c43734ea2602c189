"""A payload format and a rule that the project does not know, as another package would have them.

id=a;n=1      {"id": "a", "n": "1"}
id            the value has a part without a sign of equality
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from rivermeet.expectations.invariant import ANY, Invariant
from rivermeet.infra.kafka.formats.framing import Decode, UndecodableError
from rivermeet.infra.kafka.formats.kind import PayloadFormat
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines.reads.kafka import OtherFormat


@dataclass(frozen=True)
class Pairs(OtherFormat):
    """The declaration: what stands between the pairs."""

    between: str = ";"


def decoder(format: Pairs, registry: Registry) -> Decode:
    def decode(payload: bytes) -> str:
        parts = [part.partition("=") for part in payload.decode().split(format.between)]
        if not all(sign for _, sign, _ in parts):
            raise UndecodableError("has a part without a sign of equality")
        return json.dumps({name: value for name, _, value in parts})

    return decode


FORMAT = PayloadFormat(Pairs, decoder)
RULES = (
    Invariant(
        id="after_the_war",
        sentence="No record is older than 1945.",
        source="house rules, section 2",
        families=ANY,
        profiles=None,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=lambda node: "SELECT * FROM {rows} WHERE timestamp < -788918400000",
    ),
)
