"""The paper's tables: printed numbers, the runs that repeat them, verdicts and records."""
