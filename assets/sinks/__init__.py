"""Delivery of changelogs to topics, in runs."""
