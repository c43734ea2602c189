"""Topics that changelogs are delivered to, exactly once for whoever reads committed records."""
