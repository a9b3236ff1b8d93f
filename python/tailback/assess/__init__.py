"""The dossier of a congestion control by RFC 9743: experiments as data, verdicts relative to baselines.

See docs/assess.md.
"""
