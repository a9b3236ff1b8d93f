"""The native engine and the explorer's server, for the tests in a browser.

- `native.py runs`: the cases, each with what the native engine makes of it, as JSON
- `native.py speed SECONDS`: packets and milliseconds of four flows at 1 Gbit/s
- `native.py stored FOLDER`: a stored result, of this machine's kernel if it can, and what it says of itself
- `native.py serve SITE [FILE]`: the address of a server of the page, until standard input ends
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import tailback as tb
from tailback import examples, registry
from tailback.explorer import Server, opened, table_hash
from tailback.explorer.opened import Opened, as_json

# Scenarios that come with tailback, name no file, and take a second or less.
EXAMPLES = ("voip-and-bulk", "everyone-on-the-link", "two-bottlenecks", "asymmetric", "gallery/home-call")
PAIR = """
seed = {seed}
duration = "8s"
[dumbbell]
rate = "20mbit"
rtt = "40ms"
queue = {queue}
[[flow]]
name = "one"
cc = "{cc}"
[[flow]]
name = "other"
cc = "reno"
start = "1s"
[[flow]]
name = "call"
app = "voip"
[[flow]]
name = "reader"
app = "web"
from = "right"
to = "left"
[randomness]
start_spread = "50ms"
processing_jitter = "20us"
[instruments]
polls = "all"
internals = true
queues = "all"
packets = ["call"]
requests = "all"
segments = ["one"]
"""
QUEUES = ('"1bdp"', '"codel"', '"fq_codel"', '"pie"', '"red"', '"dualpi2"', '"sfq"')


def cases() -> dict[str, str]:
    """Texts by name: every algorithm, every discipline, and what comes with tailback."""
    algorithms = registry.names("algorithms")
    pairs = {
        f"{cc} {QUEUES[number % len(QUEUES)]}": PAIR.format(seed=number + 1, cc=cc, queue=QUEUES[number % len(QUEUES)])
        for number, cc in enumerate(algorithms)
    }
    return pairs | {name: examples.read(name) for name in EXAMPLES}


def judged(text: str) -> dict[str, Any]:
    """What the native engine makes of a text, as the page receives it of a stored result."""
    result = tb.run(tb.Scenario.parse_toml(text))
    return {"toml": text, **Opened("result", "", text, result).described()}


def fast(seconds: str) -> str:
    """Four flows that fill a fast link, with nothing recorded."""
    flows = "".join(f'[[flow]]\nname = "{name}"\ncc = "cubic"\n' for name in ("a", "b", "c", "d"))
    return f'duration = "{seconds}s"\n[dumbbell]\nrate = "1gbit"\nrtt = "20ms"\nqueue = "1bdp"\n{flows}'


def stored(folder: str) -> dict[str, Any]:
    """A call beside a download, kept: on the real kernel where namespaces can be made, else simulated."""
    from tailback import live

    scenario = tb.Scenario.parse_toml(examples.read("voip-and-bulk")).with_(duration="2s")
    try:
        result = live.run(scenario)
    except (tb.errors.TailbackError, OSError):
        result = tb.run(scenario)
    result.save(folder)
    return {"engine": result.meta["engine"], "hash": table_hash(result), "flows": result.flow_names}


def main(command: str, *words: str) -> None:
    """See the module's text."""
    if command == "runs":
        sys.stdout.buffer.write(as_json({name: judged(text) for name, text in cases().items()}))
    elif command == "speed":
        text = fast(words[0])
        scenario = tb.Scenario.parse_toml(text)
        # Of the processor, so that whatever else the machine does counts on neither side.
        began = time.process_time()
        packets = int(tb.run(scenario).numpy("engine")["packets"][0])
        milliseconds = 1e3 * (time.process_time() - began)
        print(json.dumps({"toml": text, "packets": packets, "cpu_ms": milliseconds}))
    elif command == "stored":
        print(json.dumps(stored(words[0])))
    elif command == "serve":
        what = opened(Path(words[1])) if len(words) > 1 else None
        with Server(what, site=Path(words[0])) as server:
            print(server.url, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
