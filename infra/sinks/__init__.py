"""Sinks: where changelogs are delivered in addition to Delta."""
