"""Names of columns as Spark compares them: letter by letter, whatever the case."""

from __future__ import annotations

from collections.abc import Iterable

from rivermeet.pipelines.errors import OptionError


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that are equal to Spark; None if there are none.

    Examples
    --------
    >>> alike(["id", "Straße", "STRAßE"])
    ('Straße', 'STRAßE')
    >>> alike(["Straße", "STRASSE"])
    """
    seen: dict[str, str] = {}
    for name in names:
        # As in Java's equalsIgnoreCase: the Kelvin sign is a k, and ß is not ss.
        form = "".join((up if len(up := letter.upper()) == 1 else letter).lower()[0] for letter in name)
        if form in seen:
            return seen[form], name
        seen[form] = name
    return None


def refuse_alike(names: Iterable[str], where: str) -> None:
    """Raise ValueError if two names are equal to Spark; ``where`` says where they are."""
    found = alike(names)
    if found is not None:
        first, second = found
        what = f"two columns {first!r}" if first == second else f"columns {first!r} and {second!r}, one name to Spark"
        raise OptionError(f"{where} has {what}; leave one out, or name it otherwise")
