"""Runs from values that determine them: cached, resumable, compared."""
