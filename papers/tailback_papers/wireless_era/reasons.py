"""Best explanations found of claims that were missed; shown in the report where there is a miss."""

from __future__ import annotations

TINY = (
    "The model's uplink loses nothing here. The printed percentages lie below one packet of the {of} "
    "that such runs send, so they are either fractions or averages over runs of "
    "another length; neither is said."
)
WIFI_LOSS = (
    "All packets that are lost here are lost in the first seconds of a server's first transfer: it overshoots, the "
    "access point takes the air, and ACKs fill the queue of the receiver's interface, 100 packets, that the calls "
    "share. Later transfers begin at the remembered ssthresh and harm no call. The paper's losses are alike for all "
    "four. Stations that do not hear each other lose about that much beside all four (ablation hidden), but their "
    "retries raise the jitter far above the print, so the base leaves them out."
)
WIRED_JITTER = (
    "On the wire the calls' jitter is that of iperf's process, which is alike beside all four. The paper's four values "
    "were taken on different days; what of their differences is the algorithms' is not known."
)
WIFI_JITTER = (
    "Jitter follows from how long the air is taken by others, which hardly depends on the algorithm of one download at "
    "one rate. The paper's four values were taken on different days; they differ more than the model's do."
)
TIE = (
    "Where one link is the limit and no other flow uses it, all four fill it, and throughput differs by their starts "
    "only. The paper's clear differences need something that keeps a sender from filling the line for long."
)
STANDING = (
    "Westwood+'s window after a loss is rate times smallest RTT: it empties the queue, whatever its depth. The noise "
    "that makes it the fastest takes the others' queues away too, but not Hybla's, which is back in a few round trips. "
    "A standing queue beyond all others' asks for an overestimated smallest RTT, as after a timeout in a full queue, "
    "when Linux measures it again; on this line no timeout happens."
)
HYSTART = (
    "CUBIC's HyStart leaves slow start when ACKs have come for half an RTT in a row, near half the line's BDP; in 1 MB "
    "Hybla, which overshoots, is ahead. In 20 MB CUBIC is second as printed."
)
ADSL_WIFI = (
    "CUBIC leaves slow start before a queue forms and hardly deviates in 1 MB. The WiFi of the model, alone on its "
    "channel at 54 Mbit/s, adds a tenth of a millisecond to a line of 13 Mbit/s; the paper's access point must have "
    "been slower, or its air less free than thought."
)
SPLIT = (
    "Hybla's increase is (RTT/25 ms)² segments a round trip, several times CUBIC's over the windows of "
    "this line; with a queue of one BDP it refills the queue first. On the wired university, whose window is larger "
    "and queue smaller, CUBIC wins as printed."
)
THREE_G = (
    "At 130 ms Hybla multiplies its window with each ACK of slow start and overruns the queue at once; "
    "recovering costs it more than the start gained. A receive buffer that grows as Linux 3.8's (ablation "
    "growing-window) spares it that and brings it near the first, with more delay than CUBIC, as printed; but "
    "with a link that is the limit 1 MB takes as long as it takes, for Veno and Westwood too. With a queue that never "
    "drops and a smaller buffer (ablation window-3g) all four are alike."
)
KEPT = (
    "Where the line is noisy Westwood loses most, as printed. On the wired university it had little to lose: alone it "
    "leaves most of the port idle."
)
