"""A shop that never closes: orders and customers under random transactions, until it is stopped.

| a transaction | how often |
|---|---|
| adds an order or a customer, or changes one | mostly |
| moves an order to another customer | often |
| changes the key of an order or a customer, deletes one | at times |
| empties the orders | rarely |
| is rolled back, or stays open while others commit | at times |

Several clients take turns; one that would have to wait for another gives its transaction up. Held by
``tests/demos/test_cdc.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import psycopg

CUSTOMERS, ORDERS = 50, 400
"""Keys that are used."""
TABLES = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text, note text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric(12,2))",
    # Long notes lie out of line, and an update of the name leaves them out of the log.
    "ALTER TABLE customers ALTER note SET STORAGE EXTERNAL",
    f"INSERT INTO customers SELECT g, 'customer ' || g, repeat('n', 3000) FROM generate_series(1, {CUSTOMERS // 2}) g",
    f"INSERT INTO orders SELECT g, g % {CUSTOMERS}, g * 1.25 FROM generate_series(1, {ORDERS // 2}) g",
)
JOINED = """
SELECT o.id, o.customer, o.amount, c.name, length(c.note) FROM orders o LEFT JOIN customers c ON c.id = o.customer
"""


@dataclass
class Shop:
    """Clients that change the tables.

    Attributes
    ----------
    committed
        Transactions that were committed so far.
    """

    clients: list[psycopg.Connection[Any]]
    draw: random.Random
    committed: int = 0
    _closed: Event = field(default_factory=Event)
    _commits: Lock = field(default_factory=Lock)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let it go on while the block lasts."""
        for client in self.clients:
            client.execute("SET lock_timeout = '20ms'")
        busy = Thread(target=self._run, daemon=True)
        busy.start()
        try:
            yield
        finally:
            self._closed.set()
            busy.join()
            for client in self.clients:
                client.close()

    @contextmanager
    def without_commits(self) -> Iterator[None]:
        """Let transactions go on, but none end while the block lasts."""
        with self._commits:
            yield

    def _run(self) -> None:
        import psycopg

        while not self._closed.is_set():
            client = self.draw.choice(self.clients)
            try:
                if client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    client.execute("BEGIN")
                for _ in range(self.draw.randrange(1, 6)):
                    client.execute(cast(Any, statement(self.draw)))
                if self.draw.random() < 0.6:
                    self._end(client, "ROLLBACK" if self.draw.random() < 0.2 else "COMMIT")
            except psycopg.Error:
                client.execute("ROLLBACK")
            self._closed.wait(0.002)

    def _end(self, client: psycopg.Connection[Any], how: str) -> None:
        with self._commits:
            client.execute(cast(Any, how))
            self.committed += how == "COMMIT"


def statement(draw: random.Random) -> str:
    """One change, of any kind."""
    order, other = draw.randrange(ORDERS), draw.randrange(ORDERS)
    customer, another = draw.randrange(CUSTOMERS), draw.randrange(CUSTOMERS)
    cents = draw.randrange(100_000)
    kinds = {
        f"INSERT INTO orders VALUES ({order}, {customer}, {cents} / 100.0) "
        f"ON CONFLICT (id) DO UPDATE SET amount = {cents} / 100.0": 8,
        f"UPDATE orders SET customer = {customer} WHERE id IN ({order}, {other})": 5,
        f"UPDATE orders SET id = {other} WHERE id = {order} AND NOT EXISTS (SELECT FROM orders WHERE id = {other})": 2,
        f"DELETE FROM orders WHERE id = {order}": 3,
        f"INSERT INTO customers VALUES ({customer}, 'customer {cents}', repeat('n', {3000 + cents % 7})) "
        f"ON CONFLICT (id) DO UPDATE SET name = 'customer {cents}'": 3,
        f"UPDATE customers SET note = repeat('m', {2500 + cents % 9}) WHERE id = {customer}": 1,
        f"UPDATE customers SET id = {another} WHERE id = {customer} "
        f"AND NOT EXISTS (SELECT FROM customers WHERE id = {another})": 1,
        f"DELETE FROM customers WHERE id = {customer}": 1,
        "TRUNCATE orders": 0.01,
    }
    return draw.choices(list(kinds), list(kinds.values()))[0]
