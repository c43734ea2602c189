"""Payloads of topics: how they name their schemas, where these come from, and what text becomes of them."""
