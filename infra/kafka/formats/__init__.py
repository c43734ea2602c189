"""Payloads of topics: how they refer to schemas, where these come from, and how payloads become JSON text."""
