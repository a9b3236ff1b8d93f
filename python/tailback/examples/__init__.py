"""Worked examples, importable so that scenarios and tests can name them."""
