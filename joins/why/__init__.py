"""Why a row is in a result, and why one is not: said from the records of one key, without Spark."""
