"""NEXMark's events: people register, some offer items at auction, most bid. Seeded.

The definition is what the generators of Apache Beam and of nexmark/nexmark (for Flink) share. Kept of it, with their
default settings:

- Of each 50 events in a row the first is a person, three are auctions, 46 are bids. Person and auction ids count up
  from 1000; categories are 10 to 14.
- The first event is at 2015-07-15T00:00Z, and each later one 100 µs after the one before.
- 3 of 4 auctions are by the hot seller, the first of the newest hundred people; others by any of the newest thousand
  people, or of the ten to come. 3 of 4 bids are by the hot bidder, the second of the hundred; others as sellers are.
- Half of the bids are on the hot auction, the first of the newest hundred; others on one of the newest 101, or of the
  ten to come. So a bid may name an auction that is not there yet, as an auction may its seller.
- Prices are 10^u dollars, u uniform in [0, 6), kept in cents. An auction lasts until about a hundred later ones have
  started. Names, cities and states are drawn from the definition's lists, texts are of random length; half of the bids
  come through one of four hot channels, the others through one of ten thousand.
- An event arrives when it happens, but one of ten is held back by 1 to 3,000 ms, as by Beam's source at a limited rate.
  `Pace` can also shuffle events in groups, with the definition's stride.

Left out: ``extra``, which pads a record to a size; rates that change in cycles; several generators at once; wall-clock
time. The random numbers are NumPy's, so that single records are not those of the Java generators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

START = 1_436_918_400_000
"""Event time of the first event, ms."""
CYCLE, AUCTIONS = 50, 3
PLACES: Mapping[str, Sequence[int]] = {"persons": range(1), "auctions": range(1, 4), "bids": range(4, CYCLE)}
"""Which events of a cycle are of a kind."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT, LEAD, HOT = 1000, 100, 10, 100
STRIDE = 953
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"]
CITIES += ["Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
OTHER_CHANNELS = 10_000

Columns = dict[str, Any]
Random = np.random.Generator


@dataclass(frozen=True)
class Pace:
    """When events happen, and how far from that they arrive.

    Attributes
    ----------
    delay_us
        From one event to the next, in µs of event time.
    group
        So many events in a row arrive shuffled; 1: none are.
    held, held_ms
        Share of the events that are held back, and for how long at most.
    """

    delay_us: int = 100
    group: int = 1
    held: float = 0.1
    held_ms: int = 3_000

    def time(self, number: Any) -> Any:
        """Event time of events, by their numbers, in ms."""
        return START + number * self.delay_us // 1000


def events(kinds: Sequence[str], count: int, seed: int = 42, pace: Pace | None = None) -> pa.Table:
    """The first events of some kinds, in order of arrival.

    Parameters
    ----------
    kinds
        Of `PLACES`. Events of other kinds take their time and are left out.
    count
        How many events of these kinds.

    Returns
    -------
    Table
        ``seq`` (order of arrival), ``side`` (place in ``kinds``), ``ts`` (event time, ms), and the columns of all
        kinds, null where an event's kind has no such column.
    """
    pace = pace or Pace()
    places = np.array(sorted(place for kind in kinds for place in PLACES[kind]))
    each = np.arange(count)
    numbers = each // len(places) * CYCLE + places[each % len(places)]
    tables, arrivals, sent = [], [], []
    for side, kind in enumerate(kinds):
        own = numbers[np.isin(numbers % CYCLE, PLACES[kind])]
        rng = np.random.default_rng([seed, list(PLACES).index(kind)])
        order = own - own % pace.group + own % pace.group * pow(STRIDE, -1, pace.group) % pace.group
        held = np.where(rng.random(len(own)) < pace.held, rng.integers(1, pace.held_ms + 1, len(own)), 0)
        columns = {"side": np.full(len(own), side, np.int8), "ts": pace.time(own), **_KINDS[kind](own, rng, pace)}
        tables.append(pa.table(columns))
        arrivals.append(order * pace.delay_us + held * 1000)
        sent.append(order)
    arrived = np.lexsort((np.concatenate(sent), np.concatenate(arrivals)))
    found = pa.concat_tables(tables, promote_options="default").take(pa.array(arrived)).combine_chunks()
    return found.add_column(0, "seq", pa.array(each))


def _person(number: Any, rng: Random, pace: Pace) -> Columns:
    count = len(number)
    digits = [f"{n:04d}" for n in range(10_000)]
    return {
        "id": FIRST_ID + number // CYCLE,
        "name": _join_texts(_any(FIRST_NAMES, rng, count), _any(LAST_NAMES, rng, count), " "),
        "email": _join_texts(_text(rng, count, 7), "@", _text(rng, count, 5), ".com", ""),
        "credit_card": _join_texts(*(_any(digits, rng, count) for _ in range(4)), " "),
        "city": _any(CITIES, rng, count),
        "state": _any(STATES, rng, count),
    }


def _auction(number: Any, rng: Random, pace: Pace) -> Columns:
    count = len(number)
    starts, initial = pace.time(number), _price(rng, count)
    horizon = pace.time(number + AUCTIONS_IN_FLIGHT * CYCLE // AUCTIONS) - starts
    newest = number // CYCLE
    return {
        "id": FIRST_ID + newest * AUCTIONS + number % CYCLE - PLACES["auctions"][0],
        "item_name": _text(rng, count, 20),
        "description": _text(rng, count, 100),
        "initial_bid": initial,
        "reserve": initial + _price(rng, count),
        "expires": starts + 1 + rng.integers(0, np.maximum(horizon * 2, 1)),
        "seller": FIRST_ID + np.where(rng.random(count) < 3 / 4, newest // HOT * HOT, _someone(newest, rng)),
        "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, count),
    }


def _bid(number: Any, rng: Random, pace: Pace) -> Columns:
    count = len(number)
    person, newest = number // CYCLE, number // CYCLE * AUCTIONS + AUCTIONS - 1
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    some = oldest + rng.integers(0, newest - oldest + 1 + LEAD)
    hot = len(HOT_CHANNELS)
    channels = [*HOT_CHANNELS, *(f"channel-{n}" for n in range(OTHER_CHANNELS))]
    named = [
        *[""] * hot,
        *(f"&channel_id={n}" if known else "" for n, known in enumerate(rng.random(OTHER_CHANNELS) < 0.9)),
    ]
    folders = (_text(rng, len(channels), 5, "_") for _ in range(3))
    page = _join_texts("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    urls = _join_texts(page, pa.array(named), "")
    through = pa.array(
        np.where(rng.random(count) < 1 / 2, rng.integers(0, hot, count), rng.integers(hot, len(channels), count))
    )
    return {
        "auction": FIRST_ID + np.where(rng.random(count) < 1 / 2, newest // HOT * HOT, some),
        "bidder": FIRST_ID + np.where(rng.random(count) < 3 / 4, person // HOT * HOT + 1, _someone(person, rng)),
        "price": _price(rng, count),
        "channel": pa.array(channels).take(through),
        "url": urls.take(through),
    }


_KINDS: Mapping[str, Callable[[Any, Random, Pace], Columns]] = {"persons": _person, "auctions": _auction, "bids": _bid}


def _someone(newest: Any, rng: Random) -> Any:
    """One of the active people, or of those to come; counted from 0."""
    active = np.minimum(newest + 1, ACTIVE_PEOPLE)
    return newest + 1 - active + rng.integers(0, active + LEAD)


def _join_texts(*parts: Any) -> pa.Array:
    """Texts side by side; the last part stands between them."""
    return pc.call_function("binary_join_element_wise", list(parts))


def _price(rng: Random, count: int) -> Any:
    return np.round(10 ** (rng.random(count) * 6) * 100).astype(np.int64)


def _any(words: Sequence[str], rng: Random, count: int) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), count)))


def _text(rng: Random, count: int, below: int, blank: str = " ") -> pa.Array:
    """Texts of 3 letters or more, one of 13 a blank; blanks at the ends are cut off."""
    ends = np.cumsum(rng.integers(3, below, count))
    letters = rng.integers(ord("a"), ord("z") + 1, ends[-1] if count else 0, dtype=np.uint8)
    letters[rng.integers(0, 13, len(letters), dtype=np.uint8) == 0] = ord(blank)
    places = np.r_[0, ends].astype(np.int32)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(places), pa.py_buffer(letters))
    return pc.call_function("utf8_trim_whitespace", [texts])
