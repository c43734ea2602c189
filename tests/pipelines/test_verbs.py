"""Each public verb has an example that runs, and options that a type checker knows."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_overloads, get_type_hints

import pytest

from rivermeet.pipelines import (
    JSON,
    Files,
    JoinWindow,
    Kafka,
    Pipeline,
    SlidingWindows,
    Text,
    TimeWindows,
    average,
    count,
    expr,
    joining,
    maximum,
    minimum,
    nodes,
    operations,
    total,
)

VERBS: dict[type, str] = {
    nodes.Node: "to_topic shadowed_by",
    nodes.Stream: "join left_join outer_join filter map_values select_key merge to_table group_by_key group_by",
    nodes.Table: "join left_join outer_join one_to_many_join filter map_values to_stream group_by",
    nodes.GlobalTable: "join left_join outer_join",
    nodes.GroupedTable: "aggregate",
    nodes.GroupedStream: "windowed_by",
    nodes.WindowedStream: "aggregate",
    Pipeline: "stream table global_table check",
}
AGGREGATES = (count, total, minimum, maximum, average)
JOINS = [(kind, name) for kind, names in VERBS.items() for name in names.split() if name.endswith("join")]
GIVEN = (JSON, Files, JoinWindow, Kafka, Pipeline, SlidingWindows, Text, TimeWindows, expr, *AGGREGATES)


def air() -> dict[str, Any]:
    """The nodes that examples name."""
    pipeline = Pipeline("air")

    def files(**columns: str) -> Files:
        return Files("none/*.csv", "csv", {**columns, "at": "BIGINT"})

    flown: dict[str, Any] = {"key": ["flight"], "timestamp": "at"}
    shown = files(flight="STRING", carrier="STRING", delay="INT", hour="BIGINT")
    departures = pipeline.stream("departures", shown, value=["carrier", "delay", "hour"], **flown)
    hours = departures.group_by_key().windowed_by(TimeWindows("1h"))
    planes = files(tail_number="STRING", seats="INT", maker="STRING")
    own: dict[str, Any] = {"timestamp": "at"}
    made = (
        departures,
        pipeline.stream("arrivals", files(flight="STRING", gate="STRING"), value=["gate"], **flown),
        pipeline.table("flights", files(flight="STRING", tail="STRING"), value=["tail"], **flown),
        pipeline.table("planes_by_flight", files(flight="STRING", plane="STRING"), value=["plane"], **flown),
        pipeline.table("planes", planes, key=["tail_number"], value=["seats", "maker"], **own),
        pipeline.global_table(
            "airlines",
            files(carrier="STRING", name="STRING", country="STRING"),
            key=["carrier"],
            value=["name", "country"],
            **own,
        ),
        pipeline.global_table(
            "countries", files(country="STRING", continent="STRING"), key=["country"], value=["continent"], **own
        ),
        hours.aggregate({"flights": count()}, "delays_by_hour"),
    )
    return {"air": pipeline, **{node.name: node for node in made}, **{one.__name__: one for one in GIVEN}}


def documented() -> Iterator[tuple[str, Callable[..., Any]]]:
    for kind, names in VERBS.items():
        yield from ((f"{kind.__name__}.{name}", vars(kind)[name]) for name in names.split())
    yield from ((one.__name__, one) for one in AGGREGATES)
    yield "Pipeline", Pipeline


DOCUMENTED = dict(documented())


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_example_runs(name: str) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(DOCUMENTED[name], name, module=False, globs=air())  # pyright: ignore[reportArgumentType]
    assert example.examples, f"{name} has no example"
    said: list[str] = []
    options = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(verbose=False, optionflags=options).run(example, out=said.append)
    assert not said, "".join(said)


def test_no_verb_is_left_out() -> None:
    public = {
        f"{kind.__name__}.{name}"
        for kind in VERBS
        if kind is not Pipeline
        for name, made in vars(kind).items()
        if inspect.isfunction(made) and not name.startswith("_")
    }
    helpers = {"Node.refuse", "Node.validate_columns", "Node.history_ms"}
    assert public - helpers == {name for name in DOCUMENTED if "." in name and not name.startswith("Pipeline.")}


@pytest.mark.parametrize(("kind", "name"), JOINS)
def test_every_option_of_a_join_is_typed_and_documented(kind: type, name: str) -> None:
    verb = vars(kind)[name]
    for one in get_overloads(verb) or [verb]:
        hints = get_type_hints(one, {**vars(nodes)}, include_extras=True)
        (options,) = hints["options"].__args__
        assert options.__name__ in {made for made in vars(joining) if made.endswith("Options")}
        said = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in _bases(options))
        assert {option for option in options.__annotations__ if option not in said} == set()


def _bases(options: Any) -> list[Any]:
    """The dictionary with those that it extends: what has no other options than it."""
    every = [
        made
        for made in vars(joining).values()
        if getattr(made, "__annotations__", None) and made.__class__ is options.__class__
    ]
    return [made for made in every if made.__annotations__.items() <= options.__annotations__.items()]


def test_aggregates_are_all_here() -> None:
    made = {
        name
        for name, one in vars(operations).items()
        if inspect.isfunction(one) and one.__module__ == operations.__name__
    }
    assert {one.__name__ for one in AGGREGATES} == made - {"field", "replace", "dataclass"}
