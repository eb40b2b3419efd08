"""What users ask for: one function per wish, free of flags; each returns a result that can print itself."""
