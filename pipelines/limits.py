"""Every threshold of the project, with its unit and its reason; what a user may set is a setting instead.

A threshold decides between two ways to the same rows, bounds what a message or page shows, or says how long to wait. No
result depends on one. Read as ``limits.NAME``, so that a test may set another. Held by
``tests/project/test_limits.py``: each has its reason and is read, and no name stands for two numbers anywhere.
"""

from __future__ import annotations

# Epochs: from when on a large way is worth what it costs.
ONE_PARTITION_RECORDS = 5_000
"""Records of an epoch up to which its shuffles have one partition: below, starting tasks costs more than they do."""
PARTITION_RECORDS = 250_000
"""Records that one partition of a shuffle has at most."""
INTERPRETED_ROWS = 50_000
"""Rows that an epoch's queries may read, up to which they are interpreted: compiling them would take longer."""
BROADCAST_ROWS = 100_000
"""Rows of an epoch, or keys of them, up to which they are broadcast to a table's rows."""
KEPT_RECORDS = 200_000
"""Records of an epoch up to which its frames are kept as checkpoints: planning again costs more than memory."""
NAMED_PARTITIONS = 16
"""Partitions up to which a condition names each."""
COUNTED_ROWS = 2**17
"""Rows of a staged file that are counted at a time."""
NODES_AT_ONCE = 2
"""Nodes of a run at a time: Spark plans on one core, and computes on all."""
FAILING_RECORDS = 10
"""Failing records of one epoch from which on they are no bad data any longer, but a wrong expression."""

# Folds and files of tables.
DUE_SHARE = 0.1
"""Share of a table's rows that its tail may have before a fold is due."""
TAIL_RECORDS = 10_000
"""Records that any tail may have: a fold is a commit however few there are."""
WHOLE_TABLE_ROWS = 20_000
"""Rows of a table that a fold writes whole: a megabyte or so, until maintenance removes what was before."""
KEY_RANGE_BYTES = 32 * 2**20
"""Bytes of a changelog that one range of keys is made of: maintenance leaves such files as they are."""
DRIVER_FOLD_BYTES = 64 * 2**20
"""Bytes of files that the driver reads for one fold."""
SMALL_FILE_BYTES = 16 * 2**20
"""Bytes below which a file is put together with others; a larger one is written once and then left."""
SMALL_LINE_FILE_BYTES = 2**20
"""The same for lines: of files that follow each other in time, a look at the newest lines opens the last one only."""
NAMED_FILES = 500
"""Files up to which they are named to Spark, which looks for each of them."""
OPEN_VERSIONS = 64
"""Versions that a session keeps open; an epoch of two views of views reads eight, and one that is dropped is lost to
frames that were made of it."""
FENCED_COMMITS = 20
"""Commits of an old lease holder that may come first, one after the other."""
RIVAL_LINES = 8
"""Times that a write of lines to a store looks again, where another machine's came first."""

# Judging.
DUCKDB_BYTES = 4 * 2**30
"""Bytes of Parquet files that DuckDB judges in one evaluation; Spark judges what is more."""
JUDGED_TABLE_ROWS = 5_000_000
"""Rows of a table up to which all of it is judged after each fold: some 7 s of processor time a million."""
SMALL_FOLD = 10
"""A fold is small if it read and folded less than this part of the table's rows (a tenth)."""

# Files that are read.
DRIVER_FILES_BYTES = 256 << 20
"""Bytes of an epoch's files, unpacked, that this process reads; the engine reads what is more, on all of its cores."""
BLOCK_BYTES = 4 << 20
"""Bytes of a file that are read at a time."""
CHUNK_LINES = 20_000
"""Lines that land at a time."""
FIELD_LINES = 1000
"""Lines that one quoted field may go over; beyond, the opening quote is taken for a stray one."""
LINE_BYTES = 256 << 20
"""Bytes of a line; a file with a longer one is not read, as some kilobytes of gzip may hold gigabytes of zeros."""

# Topics.
BROKER_SECONDS = 20.0
"""How long an answer of the broker may take."""
PROGRESS_SECONDS = 60.0
"""Seconds without any record of a slice, after which the broker counts as gone."""
POSITION_SECONDS = 60.0
"""How long the broker may take to give the position of a sink."""
COMMIT_SECONDS = 120.0
"""How long the broker may take to acknowledge a transaction and to commit it."""
FEED_SECONDS = 60.0
"""How long the broker may take for the records of a delivered file."""
REGISTRY_SECONDS = 10.0
"""How long an answer of the schema registry may take."""
FETCHED_BYTES = 8 << 20
"""Bytes that one request brings of a topic."""
QUEUED_KILOBYTES = 64 << 10
"""Kilobytes of a topic that lie ready; with a chunk of records, what reading takes of memory."""
TAKEN_RECORDS = 10_000
"""Records of a topic that are taken at once."""
TAKEN_BYTES = 16 << 20
"""Bytes of a topic that are taken at once."""
TRANSACTION_ROWS = 100_000
"""Rows of a transaction. A reader of committed records waits for its end, and the broker for no longer than minutes."""
LAG_OFFSETS = 10_000
"""Offsets of a topic that are looked at one by one to count its lag; beyond, each counts as a record."""

# Databases.
CONNECT_SECONDS = 10
"""How long a PostgreSQL server may take to accept a connection."""
LOCK_MS = 60_000
"""How long (ms) a lock, or transactions that a new slot has to wait for, may take."""
PUBLISH_ATTEMPTS = 20
"""How often somebody else may alter a publication while we are about to."""
PEEKED_CHANGES = 5_000
"""Changes of a slot that are taken at once."""
UNUSED_CUT_MS = 60_000
"""How long (ms) a cut that no epoch has planned is kept."""
IDLE_LOG_BYTES = 16 << 20
"""Bytes of log without a change of the pipeline's tables that the slot is moved over."""

# What is shown, and kept to be shown.
SHOWN_ROWS = 5
"""Rows that a command or a message shows of what it found; it says how many there are."""
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
"""A node's newest epochs that have details however many invariants there are."""
MOST_DETAILED_EPOCHS = 30
"""A node's newest epochs that have details at most."""
EPOCH_GROUPS = 10
"""Columns that older epochs are grouped to."""
DATA_DOCS_RUNS = 200
"""Newest pages of Data Docs that are kept."""
WALKED_KEYS = 10
"""Keys of a page that are walked back: each takes a moment, three seconds of ten million rows."""
WALKED_ROWS = 3
"""Rows of a key that a page explains, as by ``--limit``."""
WALKED_NODES = 30
"""Nodes in a row that are walked back through: a pipeline has no circles, and a longer one is cut."""
MARKS_SECONDS = 86_400
"""Seconds after which the marks of a run are nobody's: its audit did not come."""
