"""Kinds of layers, one file each: a `Kind` reads a call of a function and makes terms of the gradient behind it."""
