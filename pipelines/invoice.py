"""Invoices of a small shop: the example of the proposal of global tables (KIP-99).

A purchase names a product and an account. Both are looked up by a column of the purchase, not by its key, so nothing
is repartitioned, and a change of a product or a customer does not change earlier invoices:

    purchase_id | product    | price | customer    | address
    P-1001      | Bowl       |  34.5 | Ines Moreau | 4 Quai Vert, Ghent
    P-1003      | House sign |  58.0 | Tomas Berg  | 19 Hill Road, Leith
    P-1004      | Bowl       |  36.0 | Ines Moreau | 4 Quai Vert, Ghent       the price has changed since P-1001
    P-1007      | Wall clock | 120.0 | Ines Moreau | 7 Rue du Lac, Namur      and she has moved

``invoices`` is an inner join and omits purchases that cannot be billed: P-1002 came before its product was known,
P-1006 has no known account, P-1008 asks for a withdrawn product. ``checked_purchases`` is the same with left joins and
has all of them.
"""

from __future__ import annotations

from rivermeet.pipelines.pipeline import Pipeline
from rivermeet.pipelines.source import Files

PIPELINE = Pipeline(
    "invoice", description="Purchases, billed with the product and customer of their day.", freshness="1d"
)

purchases = PIPELINE.stream(
    "purchases",
    Files(
        "invoice/purchases/*.jsonl",
        "json",
        {
            "purchase_id": "STRING",
            "account_id": "STRING",
            "product_id": "STRING",
            "quantity": "INT",
            "at": "TIMESTAMP",
        },
    ),
    key=["purchase_id"],
    value=["account_id", "product_id", "quantity"],
    timestamp="at",
    description="What customers ordered.",
)
products = PIPELINE.global_table(
    "products",
    Files(
        "invoice/products/*.jsonl",
        "json",
        {
            "product_id": "STRING",
            "name": "STRING",
            "description": "STRING",
            "price": "DOUBLE",
            "withdrawn": "BOOLEAN",
            "at": "TIMESTAMP",
        },
    ),
    key=["product_id"],
    value=["name", "description", "price"],
    timestamp="at",
    tombstone="withdrawn",
    description="What the shop makes. A withdrawn product is a tombstone.",
)
customers = PIPELINE.global_table(
    "customers",
    Files(
        "invoice/customers/*.jsonl",
        "json",
        {"account_id": "STRING", "name": "STRING", "address": "STRING", "at": "TIMESTAMP"},
    ),
    key=["account_id"],
    value=["name", "address"],
    timestamp="at",
    description="Who has an account.",
)

_PRICED = {
    "account_id": "left.account_id",
    "quantity": "left.quantity",
    "product": "right.name",
    "price": "right.price",
}
_BILLED = {
    "product": "left.product",
    "price": "left.price",
    "quantity": "left.quantity",
    "customer": "right.name",
    "address": "right.address",
}

priced_purchases = purchases.join(products, "priced_purchases", key="product_id", select=_PRICED)
invoices = priced_purchases.join(customers, "invoices", key="account_id", select=_BILLED)

_known_products = purchases.left_join(products, "known_products", key="product_id", select=_PRICED)
checked_purchases = _known_products.left_join(customers, "checked_purchases", key="account_id", select=_BILLED)
