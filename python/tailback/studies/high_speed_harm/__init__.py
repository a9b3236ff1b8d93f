"""SACK, HS-TCP, H-TCP, CUBIC and Compound over an ocean link and on a campus, and what users feel (Wu, 2007)."""
