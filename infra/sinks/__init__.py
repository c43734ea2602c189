"""Where changelogs are written to, besides Delta."""
