"""Packet captures: exports a run's packets as pcapng, and analyses captures of any origin."""

from tailback.capture.calls import voip
from tailback.capture.export import export, export_all, points
from tailback.capture.flent import Flent, flent, open_flent, write_flent
from tailback.capture.identify import Answer, identify
from tailback.capture.logs import siftr, web100, write_web100
from tailback.capture.opened import open_capture
from tailback.capture.pairing import Clocks, Delays, owd, rtt
from tailback.capture.reading import CaptureError, Reading, flows, read, throughput
from tailback.capture.window import Window, draw, window, write_page

__all__ = [
    "Answer",
    "CaptureError",
    "Clocks",
    "Delays",
    "Flent",
    "Reading",
    "Window",
    "draw",
    "export",
    "export_all",
    "flent",
    "flows",
    "identify",
    "open_capture",
    "open_flent",
    "owd",
    "points",
    "read",
    "rtt",
    "siftr",
    "throughput",
    "voip",
    "web100",
    "window",
    "write_flent",
    "write_page",
    "write_web100",
]
