"""Topics of Debezium's envelopes as sources: read like other topics, without what a connector repeats."""
