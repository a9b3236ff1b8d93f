"""Packet captures: a run's packets out to pcapng, anyone's captures in."""

from tailback.capture.export import export, export_all, points

__all__ = ["export", "export_all", "points"]
