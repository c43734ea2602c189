r"""Converts values of a source to the declared types: exactly, depending only on the text, or with a reason why not.

| written | declared | is |
|---|---|---|
| ``1.50``, ``150e-2``, DOUBLE 1.5 | DECIMAL(10,1) | 1.5 |
| ``9.505``, DOUBLE 9.505, DECIMAL(6,3) 9.505 | DECIMAL(10,2) | none: it would be rounded |
| ``1.0``, ``1e3``, DOUBLE 3.0 | BIGINT | 1, 1000, 3 |
| ``1.5``, BIGINT 3000000000 | INT | none |
| ``0.1``, ``9007199254740993`` | DOUBLE | the nearest one, which is what a DOUBLE is |
| ``1e400``, ``1e-400``, ``1d`` | DOUBLE | none: too large, too small, no number |
| ``2026-01-05T10:00:00+01:00`` | TIMESTAMP | the instant |
| ``2026-01-05 10:00`` | TIMESTAMP, TIMESTAMP_NTZ | a local time |
| ``2026-01-05T10:00:00Z``, an instant of Parquet | TIMESTAMP_NTZ | none: it is an instant |
| ``10:05``, ``2026`` | TIMESTAMP | none: a time of no day, no day |
| ``2026-01-05 10:00:00 CST``, ``2026-01-05 10:00:00.123456789`` | TIMESTAMP | none: whose zone, digits would be lost |
| ``2026-01-05``, ``2026-01-05 00:00:00`` | DATE | the day |
| ``2026-01-05 garbage``, ``2026-01-05 10:00:00`` | DATE | none |
| a number | DATE, TIMESTAMP | none: its unit is unknown; declare BIGINT |
| ``true``, ``t``, ``yes``, ``y``, ``1`` | BOOLEAN | true; any other number is none |

Spark's own casts round, truncate, accept a prefix of a text, and give a time without a date the day of the run. The
rules above apply at any depth of arrays, maps and structs, whose fields are matched by name. Held by
``tests/infra/sources/test_declared_types.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.pipelines import limits
from rivermeet.records.type_text import kind_of, type_text

_CLOCKS = (T.DateType, T.TimestampType, T.TimestampNTZType)
_FLOATS = (T.FloatType, T.DoubleType)
_MANTISSA = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_NUMBER = rf"[+-]?{_MANTISSA}(?:[eE][+-]?[0-9]+)?"
_FLOAT = rf"^\s*(?:{_NUMBER}|[+-]?(?i:inf(?:inity)?)|(?i:nan))\s*$"
_DAY = r"[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_MIDNIGHT = r"(?:[ T]0{1,2}(?::0{1,2}(?::0{1,2}(?:\.0*)?)?)?)?"
_CLOCK = rf"{_DAY}(?:[ T][0-9]{{1,2}}(?::[0-9]{{1,2}}(?::[0-9]{{1,2}}(?:\.[0-9]{{1,6}}0*)?)?)?)?"
_WALL_CLOCK = rf"^\s*{_CLOCK}\s*$"
# Not EST or CST: these names are ambiguous.
_ZONE = r"(?:Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-][0-9]{1,2}(?::?[0-9]{2}){0,2}|[A-Za-z]+(?:/[A-Za-z0-9_+-]+)+)"


def as_declared(rows: DataFrame, schema: Mapping[str, str], given: Sequence[T.DataType] | None = None) -> DataFrame:
    """Give `LINE_COLUMNS`, ``typed`` (a struct of ``t0``, ``t1``, … as declared), ``instants`` and ``malformed``.

    ``instants`` are the numbers of TIMESTAMP columns whose value is an instant, and not a local time.
    It works on each group of files before their union: a union of an INT with a STRING column
    would cast the strings, and fail the query on a bad one (test: parquet). ``given`` are the types of the rows, if the
    engine need not determine them. A struct without a declared field is a ValueError.
    """
    found = [field.dataType for field in rows.select("raw.*").schema] if given is None else given
    kinds = list(zip(found, map(kind_of, schema.values()), strict=True))
    read = [value_as(F.col(f"raw.r{i}"), of, to).alias(f"t{i}") for i, (of, to) in enumerate(kinds)]
    typed = rows.select("*", F.struct(*read).alias("typed"))
    problems, instants = [F.col("malformed")], [F.lit(None).cast("int")]
    for i, ((name, kind), (of, to)) in enumerate(zip(schema.items(), kinds, strict=True)):
        raw = F.col(f"raw.r{i}")
        sound = is_exact(raw, F.col(f"typed.t{i}"), of, to)
        if sound is not None:
            text = F.hex(raw) if isinstance(of, T.BinaryType) else raw
            problems.append(F.when(~sound, not_a(f"column '{name}'", text, kind)))
        if isinstance(to, T.TimestampType):
            instants.append(F.when(_is_instant(raw, of), F.lit(i)))
    instant = F.array_compact(F.array(*instants)).alias("instants")
    return typed.select(*LINE_COLUMNS, "typed", instant, F.coalesce(*problems).alias("malformed"))


def no_text() -> Column:
    """A null: the member of a row of no archive, or the problem of a row before its types are known."""
    return F.lit(None).cast("string")


def declare(
    rows: DataFrame,
    schema: Mapping[str, str],
    columns: Iterable[Column],
    malformed: Column,
    given: Sequence[T.DataType] | None = None,
    **line: Column,
) -> DataFrame:
    """Rows as `as_declared` gives them; ``line`` are those of `LINE_COLUMNS` that have another name there."""
    raw = F.struct(*[column.alias(f"r{i}") for i, column in enumerate(columns)])
    place = [line[name].alias(name) if name in line else F.col(name) for name in LINE_COLUMNS]
    return as_declared(rows.select(*place, raw.alias("raw"), malformed.alias("malformed")), schema, given)


def not_a(label: str, found: Column, kind: str) -> Column:
    """The reason for a value that is not of its type."""
    text = F.substring(found.cast("string"), 1, limits.VALUE_WIDTH)
    return F.concat(F.lit(f"{label}: '"), text, F.lit(f"' is not {kind.upper()}"))


def value_as(raw: Column, given: T.DataType, wanted: T.DataType) -> Column:
    """The value cast to the declared type; null, or an inexact value, if it does not fit."""
    if given == wanted:
        return raw
    if isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return F.transform(raw, lambda part: value_as(part, given.elementType, wanted.elementType))
    if isinstance(given, T.MapType) and isinstance(wanted, T.MapType):
        keys = F.transform(F.map_keys(raw), lambda key: value_as(key, given.keyType, wanted.keyType))
        values = F.transform(F.map_values(raw), lambda part: value_as(part, given.valueType, wanted.valueType))
        # A map with a key twice, or a null key, would fail the query.
        distinct = (F.size(F.array_distinct(keys)) == F.size(keys)) & F.forall(keys, F.isnotnull)
        return F.when(distinct, F.map_from_arrays(keys, values))
    if isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        parts = [
            value_as(raw.getField(of.name), of.dataType, to.dataType).alias(to.name)
            for of, to in _fields(given, wanted)
        ]
        return F.when(F.isnotnull(raw), F.struct(*parts))
    kind = type_text(wanted)
    if isinstance(given, T.StringType) and isinstance(wanted, T.IntegralType):
        return F.coalesce(raw.try_cast(kind), raw.try_cast("decimal(38,0)").try_cast(kind))
    if isinstance(given, T.NumericType) and isinstance(wanted, _CLOCKS):
        return F.lit(None).cast(kind)
    if isinstance(given, _CLOCKS) and isinstance(wanted, T.NumericType):
        return F.lit(None).cast(kind)
    if isinstance(given, T.BinaryType) and isinstance(wanted, T.StringType):
        return F.try_validate_utf8(raw.cast("string"))
    return raw.try_cast(kind)


def is_exact(raw: Column, value: Column, given: T.DataType, wanted: T.DataType) -> Column | None:
    """Whether ``value``, the result of `value_as`, is null or exact; None if it always is."""
    if given == wanted:
        return None
    fits = F.isnotnull(value)
    if isinstance(given, T.StringType):
        fits = fits & _text_fits(raw, value, wanted)
    elif isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        fits = fits & _all_sound(raw, given.elementType, wanted.elementType)
    elif isinstance(given, T.MapType) and isinstance(wanted, T.MapType):
        fits = fits & _all_sound(F.map_keys(raw), given.keyType, wanted.keyType)
        fits = fits & _all_sound(F.map_values(raw), given.valueType, wanted.valueType)
    elif isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        for of, to in _fields(given, wanted):
            part = raw.getField(of.name)
            sound = is_exact(part, value_as(part, of.dataType, to.dataType), of.dataType, to.dataType)
            fits = fits if sound is None else fits & sound
    elif isinstance(given, T.NumericType) and isinstance(wanted, _FLOATS):
        fits = fits & ((F.abs(value) != float("inf")) | (F.abs(raw.cast("double")) == float("inf")))
    elif isinstance(given, T.NumericType) and isinstance(wanted, T.NumericType | T.BooleanType):
        fits = fits & raw.eqNullSafe(value.try_cast(type_text(given)))
        if isinstance(given, _FLOATS) and isinstance(wanted, T.IntegralType):
            # 2^63 is cast to the largest BIGINT, and that back to 2^63.
            fits = fits & (raw < 2.0**63)
    elif isinstance(given, _CLOCKS) and isinstance(wanted, T.DateType):
        fits = fits & raw.eqNullSafe(value.try_cast(type_text(given)))
    elif isinstance(given, T.TimestampType) and isinstance(wanted, T.TimestampNTZType):
        fits = F.lit(False)
    return F.isnull(raw) | fits


def _all_sound(parts: Column, given: T.DataType, wanted: T.DataType) -> Column:
    def sound(part: Column) -> Column:
        found = is_exact(part, value_as(part, given, wanted), given, wanted)
        return F.lit(True) if found is None else found

    return F.forall(parts, sound)


def _text_fits(raw: Column, value: Column, wanted: T.DataType) -> Column:
    """Whether a text represents exactly this value, which is not null."""
    if isinstance(wanted, T.IntegralType):
        return _has_places(raw, 0)
    if isinstance(wanted, T.DecimalType):
        return _has_places(raw, wanted.scale)
    if isinstance(wanted, _FLOATS):
        beyond = (F.abs(value) == float("inf")) & ~F.rlike(raw, F.lit(r"(?i)^\s*[+-]?inf"))
        below = (value == 0) & F.rlike(raw, F.lit("^[^eE]*[1-9]"))
        return F.rlike(raw, F.lit(_FLOAT)) & ~beyond & ~below
    if isinstance(wanted, T.DateType):
        return F.rlike(raw, F.lit(rf"^\s*{_DAY}{_MIDNIGHT}\s*$"))
    if isinstance(wanted, T.TimestampType):
        return F.rlike(raw, F.lit(rf"^\s*{_CLOCK}(?:\s*{_ZONE})?\s*$"))
    if isinstance(wanted, T.TimestampNTZType):
        return F.rlike(raw, F.lit(_WALL_CLOCK))
    return F.lit(True)


def _has_places(text: Column, scale: int) -> Column:
    """Whether a number's text has at most that many digits after the point, without trailing zeros."""
    fraction = rf"(?:\.[0-9]{{0,{scale}}}0*)?" if scale else r"(?:\.0*)?"
    plain = F.rlike(text, F.lit(rf"^\s*[+-]?(?=\.?[0-9])[0-9]*{fraction}\s*$"))
    digits = F.regexp_extract(text, r"^\s*[+-]?([0-9.]*)", 1)
    shown = F.regexp_replace(F.replace(digits, F.lit("."), F.lit("")), "0+$", "")
    whole = F.char_length(F.substring_index(digits, ".", 1))
    power = F.coalesce(F.regexp_extract(text, "[eE]([+-]?[0-9]+)", 1).try_cast("int"), F.lit(-1_000_000))
    # 150e-2: the last digit that counts is the second of a number of three whole ones, shifted by two.
    powered = F.rlike(text, F.lit(rf"^\s*{_NUMBER}\s*$")) & F.contains(F.lower(text), F.lit("e"))
    return plain | (powered & ((shown == "") | (F.char_length(shown) - whole - power <= scale)))


def _is_instant(raw: Column, given: T.DataType) -> Column:
    """Whether a value of a declared TIMESTAMP is an instant, independent of the zone of the source."""
    if isinstance(given, T.StringType):
        return ~F.rlike(raw, F.lit(_WALL_CLOCK))
    return F.lit(isinstance(given, T.TimestampType)) & F.isnotnull(raw)


def _fields(given: T.StructType, wanted: T.StructType) -> list[tuple[T.StructField, T.StructField]]:
    """Each declared field with the one of its name, ignoring case."""
    found: list[tuple[T.StructField, T.StructField]] = []
    for field in wanted:
        of = [f for f in given if f.name == field.name] or [f for f in given if f.name.lower() == field.name.lower()]
        if len(of) != 1:
            raise ValueError(f"a struct has no field '{field.name}' (it has {', '.join(given.names)})")
        found.append((of[0], field))
    return found
