"""Draws window and queue of the kernel and of the simulator on one time axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tailback.files import whole_file
from tailback.plots import style
from tailback_validation import truth
from tailback_validation.compare import Case
from tailback_validation.measures import MSS

__all__ = ["overlay", "save_all"]

_SHOWN_S = 60.0
_START_S = 5.0


def overlay(case: Case) -> Figure:
    """Window above, queue below; the first seconds wide, then a minute."""
    if case.polls is None:
        raise ValueError(f"{case.algorithm}: the run's polls were not kept")
    kernel = truth.kernel_trace(case.algorithm)
    ours, title = case.polls, style.algorithm_of(case.algorithm)
    with style.house_style():
        figure, panels = style.new_figure(2, 2, height=3.6, sharex="col", width_ratios=(1, 3))
        for column, (low, high) in enumerate(((0.4, _START_S), (_START_S, _SHOWN_S))):
            window, queue = panels[0][column], panels[1][column]
            window.plot(kernel["t_s"], kernel["cwnd"], color=style.ORANGE, lw=2.2, label="Linux 6.1")
            window.plot(ours["t_s"], ours["cwnd"] / MSS, color=style.BLUE, lw=0.9, label="tailback")
            queue.plot(kernel["t_s"], kernel["queue_bytes"] / 1e3, color=style.ORANGE, lw=2.2)
            # The kernel's trace has a sample every 100 ms; ours is decimated to the same.
            at = np.arange(len(ours["queue_t_s"])) % 5 == 0
            queue.plot(ours["queue_t_s"][at], ours["queue_bytes"][at] / 1e3, color=style.BLUE, lw=0.9)
            queue.set_xlim(low, high)
            queue.set_xlabel("time, s")
            window.set_ylim(bottom=0)
            queue.set_ylim(0, 105)
        panels[0][0].set_ylabel("cwnd, segments")
        panels[1][0].set_ylabel("queue, kB")
        panels[0][0].set_title(title)
        panels[0][1].legend(loc="lower right", ncols=2)
    return figure


def save_all(cases: list[Case], folder: Path) -> dict[str, Path]:
    """Save one PNG per algorithm."""
    saved = {}
    for case in cases:
        if case.polls is not None:
            path = saved[case.algorithm] = folder / f"{case.algorithm}.png"
            with whole_file(path) as temporary:
                # Small files, because they are committed and every validation rewrites them.
                overlay(case).savefig(temporary, format="png", dpi=80)
    return saved
