"""NEXMark's queries 3, 8 and 20 as pipelines, over events by its published definition."""
