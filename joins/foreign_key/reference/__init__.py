"""The join in plain Python, one record at a time: the law that the operators are held to, a file per profile."""

from typing import Any

from rivermeet.joins.foreign_key.reference.cached import CachedForeignKeyJoin
from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.foreign_key.reference.profile_0_10_2 import ForeignKeyJoin30
from rivermeet.joins.reference.options import NetOfCommits, VersionedSides
from rivermeet.joins.reference.records import Asks, Join, Value, key_of
from rivermeet.pipelines import joins as declared


def asks(join: declared.ForeignKeyJoin) -> Asks:
    """The foreign key of left records."""
    return {"left": join.foreign_key}


def reference_of(join: declared.ForeignKeyJoin) -> Join:
    """The reference of the declared profile, with its cache and its versioned sides."""

    def extract(_key: Any, value: Value) -> Any:
        return key_of(join.right.key, value.found)

    history = {"left": join.left.history, "right": join.right.history}
    plain = (ForeignKeyJoin30 if join.semantics == "0.10.2" else ForeignKeyJoin)(join.how, extract)
    made: Join = plain
    if join.cache is not None and join.semantics == "3.1":
        made = NetOfCommits(plain)
    elif join.cache is not None:
        cached = tuple(side for side, kept in history.items() if kept is None)
        made = CachedForeignKeyJoin(plain, cached, join.materialized)
    return VersionedSides(made, history["left"], history["right"])
