"""The join operators: DataFrames in, DataFrames out. No writes, no paths, no orchestration."""
