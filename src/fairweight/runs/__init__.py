"""A value becomes a run folder: cached, resumable, without text for people."""
