"""The engines that judge: DuckDB in the run's own process, and Spark with the same texts.

Spark computes, so that an engine which shares no code with it judges wherever it can. Rules and relations are written
once, in Spark's SQL; ``spark_sql.py`` gives DuckDB's of it.
"""
