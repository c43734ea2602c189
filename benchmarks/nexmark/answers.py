"""What the queries answer, as DuckDB works it out from all their records at once, and what answers are compared by.

``records`` has the events of a query's two kinds; ``side`` 0 is its join's left one.
"""

from __future__ import annotations

CATEGORY, LOCAL, WINDOW_MS = 10, ("OR", "ID", "CA"), 10_000
_SIDES = "(SELECT * FROM records WHERE side = 0) l JOIN (SELECT * FROM records WHERE side = 1) r"
SQL = {
    "q3": f"""SELECT l.id, r.name, r.city, r.state FROM {_SIDES} ON l.seller = r.id
        WHERE l.category = {CATEGORY} AND r.state IN {LOCAL}""",
    "q8": f"""SELECT l.id AS person, l.ts // {WINDOW_MS} * {WINDOW_MS} AS window_start, l.name, r.reserve
        FROM {_SIDES} ON l.id = r.seller AND l.ts // {WINDOW_MS} = r.ts // {WINDOW_MS}""",
    # A bid meets the auction that had arrived; one that comes before its auction meets none.
    "q20": f"""SELECT l.auction, l.bidder, l.price, l.channel, l.url, l.ts AS bid_time, r.item_name, r.description,
          r.initial_bid, r.reserve, r.ts AS auction_time, r.expires, r.seller, r.category
        FROM {_SIDES} ON l.auction = r.id AND r.seq < l.seq WHERE r.category = {CATEGORY}""",
}
CHECKSUMS = {
    "q3": "count(*), sum(id * (length(name) + ascii(city) + ascii(substr(state, 2))))",
    "q8": "count(*), sum((reserve % 1013) * (length(name) * 128 + ascii(name)))",
    "q20": "count(*), sum((price % 1009) * (reserve % 1013) + bid_time - auction_time + length(url))",
}
"""Rows and checksum, in SQL that DuckDB and Spark read alike."""
