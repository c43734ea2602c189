"""Files as sources: listed, landed by the driver up to a bound, or read by Spark, with the place of each line."""
