"""What a source reads in one epoch: a range that is fixed before it is read, and that says itself.

    {"topic": {"topic": "orders", "id": "x", "ranges": {"0": [5, 9]}}}    in a plan: its kind, and what it is made of

    description  4 offsets of topic 'orders'
    records      4
    place        topic 'orders', partition 0, offset 7

A plan holds a range without knowing of what kind it is: each kind of source has a class of its own, which is found by
its name. Held by ``tests/infra/epochs/test_plans.py`` and ``tests/test_toy_source.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from rivermeet.pipelines.errors import NotFoundError
from rivermeet.pipelines.plural import pluralize

_classes: dict[str, type[SourceRange]] = {}


@dataclass(frozen=True)
class Origin:
    """A place outside: ``file``, ``line`` where it is known, and what has to be said about it."""

    file: str | None
    line: int | None
    says: str


class SourceRange(BaseModel):
    """What one epoch of a source reads; plans call it by its ``kind``, which no other class has."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str] = ""
    is_counted: ClassVar[bool] = False
    """Whether the step that reads it counts its rows once they have landed (``infra/engine/fit.py``)."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        other = _classes.get(cls.kind, cls)
        # A file that is executed again makes its class again.
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"plans call what {other.__module__}.{other.__qualname__} reads {cls.kind!r}: give "
                f"{cls.__module__}.{cls.__qualname__} a kind of its own"
            )
        _classes[cls.kind] = cls

    @property
    def records(self) -> int:
        """About how many records it holds."""
        raise NotImplementedError

    @property
    def description(self) -> str:
        """What is read, in words."""
        raise NotImplementedError

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the files that it reads, of a kind that reads files."""
        return ()

    @property
    def loss(self) -> str:
        """What was gone before it was read, and was accepted as such; empty where nothing was."""
        return ""

    def parts(self) -> Iterator[str]:
        """A line for each part of it, for who looks at a plan."""
        yield self.description

    def warnings(self, *, hashed: bool) -> Iterator[str]:
        """What the source has become since the epoch before.

        ``hashed`` says whether keys are hashed into partitions of ours.
        """
        yield from ()

    def describe_loss(self, rows: int) -> str:
        """What came of an epoch that was run with ``accept-loss``."""
        return f"{pluralize(rows, 'record')} read of {self.description}; {self.loss or 'nothing is lost'}"

    def measure(self) -> Mapping[str, Any]:
        """What the epoch log's line of measurements has of it."""
        return {}

    def metadata(self, now_ms: float) -> Mapping[str, Any]:
        """Numbers for the run's metadata, and tables as lists of rows; ``now_ms`` is the wall clock."""
        return {}

    def to_json(self) -> Any:
        """All of it, as JSON, for the run's metadata."""
        return self.model_dump(mode="json")

    @classmethod
    def place(cls, file: str, line: int | None) -> str:
        """A place that the changelog has of a record, in words."""
        return file if line is None else f"{file}, {line}"

    def among(self, epoch: int) -> Origin:
        """What is known of a record of the epoch whose place the changelog does not have."""
        return Origin(None, None, f"epoch {epoch}")

    def warning(self, file: str) -> str:
        """What has become since of the place ``file`` that a record has; empty where nothing is known."""
        return ""


def class_of(kind: str) -> type[SourceRange]:
    """The class of a kind of range; raises `NotFoundError` if no installed kind of source has it."""
    if kind not in _classes:
        # By name: what reads plans knows no kind of source, and those of other packages are found the same way.
        import_module(f"{__package__}.source_kinds").load()
    if kind not in _classes:
        raise NotFoundError(
            f"the plan reads '{kind}', which no kind of source here does; there are {', '.join(sorted(_classes))}; "
            "install the package that the kind comes from",
            kind=kind,
        )
    return _classes[kind]


def _from_tagged(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    ((kind, body),) = given.items()
    return class_of(kind).model_validate(body)


def _tag(reads: SourceRange) -> dict[str, Any]:
    return {reads.kind: reads.model_dump(mode="json")}


AnyRange = Annotated[SourceRange, BeforeValidator(_from_tagged), PlainSerializer(_tag)]
"""A range of any kind, as a plan keeps it."""
