"""Tables: from CSV, TSV, parquet or a pandas frame to float inputs, with what was done kept as plain values."""

from fairweight.data.table.preprocessing import TablePreprocessing
from fairweight.data.table.read import read_frame, table_files
from fairweight.data.table.rows import FrameRows

__all__ = ["FrameRows", "TablePreprocessing", "read_frame", "table_files"]
