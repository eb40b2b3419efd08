"""The weight forms of the paper's appendix, for its table: one file each, found by their names."""
