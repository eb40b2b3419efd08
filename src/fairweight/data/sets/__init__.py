"""Named data sets: one file each, one public class with its usual label and groups and a `find`."""
