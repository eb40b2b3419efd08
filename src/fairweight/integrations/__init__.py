"""fairweight inside other people's frameworks; each file needs its framework and is imported when it is used."""
