"""Which verdicts count, over all papers: choices, ranges, and the figures that reasons cite."""

from __future__ import annotations

import re

import pytest

from tailback.experiment import Choice, Claim, studies
from tailback.experiment.claims import CITATION, IDENTITY, PREDICTED, RANGES
from tailback.experiment.standing import stand

PAPERS = ("voip-latency", "home-links", "high-speed-harm", "wireless-era", "aqm-pairs")
DIFFERENCES = (" ms", " points")
"""Units of claims that may be of either sign and of any size."""
SET_UP: dict[str, set[str]] = {name: set() for name in PAPERS}
# The share of packets that the wire reorders, in 100,000; the campus's RTT; the rates of ADSL and of its WiFi: parts of
# presets, which no factor of a cell names.
SET_UP |= {"voip-latency": {"100000"}, "high-speed-harm": {"18"}, "wireless-era": {"13", "54"}}
# Versions, names of reports, 802.11n and the like are no figures.
NAME = re.compile(
    r"Figs?\. \d+|FreeBSD [\d.]+|\d{3}-[A-Z]\d+\w?|"
    r"[\w.]*\d\w*[A-Za-z][\w.]*|[A-Za-z][\w-]*\d[\w.-]*|\d+\.\d+\.\d+|\d+th\b"
)
FIGURE = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def figures(text: str) -> set[str]:
    text = NAME.sub("", CITATION.sub("", text))
    return {found.replace(",", "") for found in FIGURE.findall(text)}


def of_the_setup(name: str) -> set[str]:
    """Numbers of the grid, and of what the paper says: those are no results."""
    study = studies.get(name)
    known = set()
    for cell in study.grid(False):
        known |= figures(cell.label) | figures(" ".join(map(str, cell.factors.values())))
    for claim in study.claims:
        known |= figures(f"{claim.text} {claim.paper} {claim.definition} {claim.rule.words()}")
    return known


def every_claim() -> list[Claim]:
    return [claim for name in PAPERS for claim in studies.get(name).claims]


@pytest.mark.parametrize("name", PAPERS)
def test_a_reason_cites_only_what_is_measured(name: str) -> None:
    known = of_the_setup(name) | SET_UP[name]
    ids = {claim.id for claim in studies.get(name).claims}
    for claim in studies.get(name).claims:
        assert figures(claim.why) <= known, (claim.id, figures(claim.why) - known)
        for cited in CITATION.findall(claim.why):
            assert not IDENTITY.fullmatch(cited) or cited in ids, (claim.id, cited)


@pytest.mark.parametrize("claim", every_claim(), ids=lambda claim: claim.id)
def test_every_claim_has_a_declared_range(claim: Claim) -> None:
    assert claim.possible is not None or claim.unit in RANGES or claim.unit in DIFFERENCES


def test_what_was_chosen_in_view_of_a_claim_is_not_counted() -> None:
    for name in PAPERS:
        study = studies.get(name)
        found = stand(study.claims, study.chosen)
        for choice in study.chosen:
            assert not [one for one in choice.claims if found[one].kind == PREDICTED], choice.words
    found = stand(studies.get("voip-latency").claims, studies.get("voip-latency").chosen)
    assert {found[one].kind for one in ("000-L1", "000-L3", "000-L5", "000-Q1")} == {"fitted"}
    assert found["000-Q2"].kind == PREDICTED


def test_a_choice_is_written_out() -> None:
    assert all(isinstance(choice, Choice) for name in PAPERS for choice in studies.get(name).chosen)
