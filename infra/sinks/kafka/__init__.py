"""Topics that changelogs are delivered to, exactly once for consumers of committed records."""
