"""Why a row is in a result, and why one is not: told from the records of one key, without Spark."""
