#!/usr/bin/env python3
"""Draw the picture of README and of the guide's first page: what a call waits for when an upload starts.

python scripts/front_picture.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tailback as tb
from tailback.plots.style import BLUE, GREEN, VERMILION, house_style, new_figure

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "CUBIC, modem's buffer": ("cubic", "312kB", VERMILION, "-"),
    "BBR, modem's buffer": ("bbr", "312kB", BLUE, "--"),
    "CUBIC, FQ-CoDel": ("cubic", "fq_codel", GREEN, "-."),
}


def main() -> None:
    """Run the three cases and write docs/images/bufferbloat.png."""
    base = tb.Scenario.from_toml(ROOT / "scenarios/bufferbloat.toml")
    with house_style():
        figure, ((axes,),) = new_figure(height=2.9)
        for label, (algorithm, queue, color, dashes) in CASES.items():
            result = tb.run(base.with_({"flow.upload.cc": algorithm, "dumbbell.queue": queue}))
            packets = result.numpy("packets")
            delay_ms = 1e3 * (packets["received_s"] - packets["sent_s"])
            axes.plot(packets["sent_s"], delay_ms, color=color, linestyle=dashes, linewidth=1.1)
            late = packets["sent_s"] > 20
            height = float(np.nanmedian(delay_ms[late]))
            axes.annotate(label, (30, height), (4, 0), textcoords="offset points", color=color, va="center")
        axes.axvline(5, color="0.6", linewidth=0.8)
        axes.annotate("upload\nstarts", (5, 250), (-4, 0), textcoords="offset points", ha="right", va="top")
        axes.set(xlim=(0, 30), ylim=(0, None), xlabel="time (s)", ylabel="one-way delay of a call (ms)")
        figure.savefig(ROOT / "docs/images/bufferbloat.png", dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
