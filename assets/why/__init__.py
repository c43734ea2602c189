"""Why a row is in a result, or is not: the evidence read from the changelogs, and the walk back to the sources."""
