"""Tables: from CSV, TSV, parquet or a pandas frame to float inputs, with what was done kept as plain values."""
