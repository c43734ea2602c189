"""The behaviour of each profile, in words: the rules in which releases of Kafka Streams and Rivermeet differ.

A rule is one question; profiles with the same answer do not differ in it. ``rivermeet explain`` shows
them for a declared join.
"""

from __future__ import annotations

from rivermeet.pipelines.family import Rule, family_of
from rivermeet.pipelines.joins import Join


def outer(join: Join) -> bool:
    """Whether it gives rows without a partner."""
    return join.how != "inner"


def is_cached(join: Join) -> bool:
    """Whether it has a cache."""
    return getattr(join, "cache", None) is not None


def _is_versioned(join: Join) -> bool:
    return any(getattr(node, "history", None) is not None for node in join.inputs.values())


def rules_of(join: Join) -> list[Rule]:
    """Rules in which a declared join's profiles differ."""
    return [rule for rule in family_of(join).differences if rule.of(join)]


def differences(join: Join, one: str, other: str) -> list[tuple[str, str, str]]:
    """(question, answer of one profile, answer of the other) where they differ for this join."""
    return [
        (rule.asks, rule.says[one], rule.says[other])
        for rule in rules_of(join)
        if rule.says.get(one) != rule.says.get(other)
    ]


def explain_refusal(join: Join, profile: str) -> str | None:
    """Why a profile does not offer the join, or None."""
    if profile not in join.profiles:
        return f"profile {profile!r} has no {join.family} join; it is offered by {', '.join(join.profiles)}"
    if (lacking := join.find_lacking(profile)) is not None:
        return f"profile {profile!r} has no {lacking}"
    if profile in ("0.10.0", "0.10.2") and _is_versioned(join):
        return f"profile {profile!r} has no versioned tables"
    return None
