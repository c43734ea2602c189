"""Every threshold of the project, with its unit and its reason; values that users may change are settings instead.

A threshold chooses between two ways to compute the same rows, limits what a message or page shows, or is a timeout. No
result depends on one. Read as ``limits.NAME``, so that a test may set another. Held by
``tests/project/test_limits.py``: each has its reason and is read, and no name stands for two numbers anywhere.
"""

from __future__ import annotations

# Epochs: from which size on the way for large data is worth its cost.
ONE_PARTITION_RECORDS = 5_000
"""Records of an epoch up to which its shuffles have one partition: below, starting tasks costs more than they do."""
PARTITION_RECORDS = 250_000
"""Records that one partition of a shuffle has at most."""
INTERPRETED_ROWS = 10_000
"""Rows read by an epoch's queries, up to which they are interpreted: compiling them would take longer."""
BROADCAST_ROWS = 100_000
"""Rows of an epoch, or keys of them, up to which they are broadcast to a table's rows."""
KEPT_RECORDS = 200_000
"""Records of an epoch up to which it keeps what could be read from files again, and runs beside others."""
CHECKPOINTED_RECORDS = 3_000_000
"""Records of an epoch up to which its frames are kept as checkpoints: more of them would not fit in memory."""
RECOMPUTED_RECORDS = 5_000
"""Records of an epoch up to which frames of few steps are computed where they are used: to keep one is a request."""
NAMED_PARTITIONS = 16
"""Partitions up to which a condition lists each of them."""
COUNTED_ROWS = 2**17
"""Rows of a staged file that are counted at a time."""
NODES_AT_ONCE = 2
"""Nodes of a run that are computed at a time: Spark plans on one core, and computes on all."""
FAILING_RECORDS = 10
"""Failing records of one epoch from which on the cause is a wrong expression and not bad data."""

# Folds and files of tables.
DUE_SHARE = 0.1
"""Share of a table's rows that its tail may have before a fold is due."""
TAIL_RECORDS = 10_000
"""Records that any tail may have: a fold is a commit however few there are."""
WHOLE_TABLE_ROWS = 20_000
"""Rows of a table that a fold rewrites completely: about a megabyte, until maintenance removes the earlier files."""
WHOLE_TABLE_SHARE = 0.1
"""Share of a table's rows that a fold's records are, from which on it rewrites the table, too."""
KEY_RANGE_BYTES = 32 * 2**20
"""Bytes of a changelog in one range of keys: maintenance does not rewrite such files."""
DRIVER_FOLD_BYTES = 64 * 2**20
"""Bytes of files that the driver reads for one fold."""
DRIVER_FOLD_MEMORY = 256 * 2**20
"""Bytes of their rows in memory; a fold takes twice as many for a moment."""
SMALL_FILE_BYTES = 16 * 2**20
"""Bytes below which a file is compacted with others; a larger one is never rewritten."""
SMALL_LINE_FILE_BYTES = 2**20
"""The same for lines: files follow each other in time, so reading the newest lines opens only the last one."""
NAMED_FILES = 500
"""Files up to which they are passed to Spark by name; Spark looks for each of them."""
OPEN_VERSIONS = 64
"""Versions that a session keeps open. An epoch of two views of views reads eight; frames of a version that is
dropped can no longer be read."""
FENCED_COMMITS = 20
"""Commits of an old lease holder that may come first, one after the other."""
RIVAL_LINES = 8
"""Attempts of a write of lines to a store, if another machine's write came first."""

# Judging.
DUCKDB_BYTES = 4 * 2**30
"""Bytes of Parquet files that DuckDB judges in one evaluation; beyond, Spark judges."""
JUDGED_TABLE_ROWS = 5_000_000
"""Rows of a table up to which all of it is judged after each fold: some 7 s of processor time a million."""
SMALL_FOLD = 10
"""A fold is small if it read and folded less than this part of the table's rows (a tenth)."""

# Files that are read.
DRIVER_FILES_BYTES = 256 << 20
"""Bytes of an epoch's files, unpacked, that this process reads; beyond, the engine reads, on all of its cores."""
BLOCK_BYTES = 4 << 20
"""Bytes of a file that are read at a time."""
CHUNK_LINES = 20_000
"""Lines that land at a time."""
FIELD_LINES = 1000
"""Lines that one quoted field may span; beyond, the opening quote is treated as a stray one."""
LINE_BYTES = 256 << 20
"""Bytes of a line; a file with a longer one is not read, as some kilobytes of gzip may hold gigabytes of zeros."""

# Topics.
BROKER_SECONDS = 20.0
"""Timeout of a request to the broker."""
PROGRESS_SECONDS = 60.0
"""Seconds without any record of a slice after which the broker is considered down."""
COMMIT_SECONDS = 120.0
"""Timeout of the broker for acknowledging and committing a transaction."""
FEED_SECONDS = 60.0
"""Timeout of the broker for the records of a delivered file."""
REGISTRY_SECONDS = 10.0
"""Timeout of a request to the schema registry."""
FETCHED_BYTES = 8 << 20
"""Bytes of a topic that one request fetches."""
QUEUED_KILOBYTES = 64 << 10
"""Kilobytes of a topic that are prefetched; with a chunk of records, the memory that reading takes."""
TAKEN_RECORDS = 10_000
"""Records of a topic that are read at a time."""
TAKEN_BYTES = 16 << 20
"""Bytes of a topic that are read at a time."""
TRANSACTION_ROWS = 100_000
"""Rows of a transaction. A reader of committed records waits for its end, and the broker only for minutes."""
LAG_OFFSETS = 10_000
"""Offsets of a topic that are examined one by one to count its lag; beyond, each counts as a record."""

# Databases.
CONNECT_SECONDS = 10
"""How long a PostgreSQL server, or a Spark master, may take to accept a connection."""
LOCK_MS = 60_000
"""Timeout (ms) for a lock, or for transactions that a new slot has to wait for."""
PUBLISH_ATTEMPTS = 20
"""Attempts to alter a publication that others alter at the same time."""
PEEKED_CHANGES = 5_000
"""Changes of a slot that are read at a time."""
UNUSED_CUT_MS = 60_000
"""How long (ms) a cut that no epoch has planned is kept."""
IDLE_LOG_BYTES = 16 << 20
"""Bytes of log without a change of the pipeline's tables after which the slot is advanced."""

# Limits of what is shown.
SHOWN_ROWS = 5
"""Rows that a command or a message shows; it also prints how many there are."""
MESSAGE_WIDTH = 200
"""Characters of a row, or of a list of columns, that a message shows."""
VALUE_WIDTH = 100
"""Characters of a bad value that a reason shows."""
LETTER_WIDTH = 10_000
"""Characters of a row that a dead letter keeps; a row that has as many or more counts as cut."""
SHOWN_EPOCHS = 500
"""Epochs of the quality page; older ones are left to the quality table."""
DETAILED_CELLS = 3000
"""Invariants by epochs that have details on a page: some 600 bytes each."""
LEAST_DETAILED_EPOCHS = 5
"""A node's newest epochs that always have details, however many invariants there are."""
MOST_DETAILED_EPOCHS = 30
"""A node's newest epochs that have details at most."""
EPOCH_GROUPS = 10
"""Columns into which older epochs are grouped."""
DATA_DOCS_RUNS = 200
"""Newest pages of Data Docs that are kept."""
WALKED_KEYS = 10
"""Keys of a page that are traced back: each takes time, three seconds with ten million rows."""
WALKED_ROWS = 3
"""Rows of a key that a page explains, as by ``--limit``."""
REPLAYED_RECORDS = 1000
"""A key's newest records that `why` puts through the reference join: a second or two of a window's every record."""
WALKED_NODES = 30
"""Nodes in a row that are traced back: a pipeline has no cycles, and a longer chain is cut."""
MARKS_SECONDS = 86_400
"""Seconds after which the marks of a run are discarded, because its audit did not come."""
