"""Training: fit, what watches it, and how it survives a kill."""
