"""A scenario fuzzer: random scenarios over the whole schema, what must hold of each, and the smallest one that fails.

`make fuzz` tries some thousands; `tests/test_fuzz.py` some hundred.
"""
