"""What only makes a step faster; without this folder every number stays the same."""
