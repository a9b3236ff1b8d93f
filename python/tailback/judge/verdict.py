"""The possible verdicts of a rule, and the words that pages print for them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

__all__ = [
    "CLAIM",
    "COLOURS",
    "CONTROL",
    "COVERED",
    "DOSSIER",
    "KERNELS_CHANCE",
    "PARTLY",
    "RECORD",
    "TARGET",
    "TEST",
    "TONES",
    "UNFINISHED",
    "VALIDATION",
    "Verdict",
    "Words",
    "colour",
    "rule",
    "target",
    "together",
]


class Verdict(StrEnum):
    """A verdict. The value is its plain word, and compares equal to it."""

    PASSED = "passed"
    FAILED = "failed"
    #: Undecided: the runs so far do not decide it.
    UNDECIDED = "undecided"
    #: Not measured, or not completely.
    NOT_RUN = "not run"
    #: Not testable, or not applicable.
    NOT_TESTABLE = "not testable"

    def __repr__(self) -> str:
        return repr(self.value)

    @classmethod
    def of(cls, holds: bool) -> Verdict:
        """The verdict of a rule that always decides."""
        return cls.PASSED if holds else cls.FAILED

    @classmethod
    def of_side(cls, side: int) -> Verdict:
        """The verdict for a side of the bound: 1 is good, -1 is bad, 0 is undecided."""
        return (cls.UNDECIDED, cls.PASSED, cls.FAILED)[side]


#: Worst first: one failure fails all; otherwise one missing or undecided verdict leaves all open.
_WORST = (Verdict.FAILED, Verdict.NOT_RUN, Verdict.UNDECIDED, Verdict.PASSED, Verdict.NOT_TESTABLE)
_VERDICTS: dict[str, Verdict] = {}


class Words:
    """The words that one kind of page prints for verdicts. A page with reasons has several words for one verdict."""

    def __init__(self, *columns: str | tuple[str, ...]) -> None:
        """The words in the order of `Verdict`; of several, the plain one first. The last may be left out."""
        self._of = {
            verdict: (words,) if isinstance(words, str) else words
            for verdict, words in zip(Verdict, columns, strict=False)
        }
        for verdict, words in self._of.items():
            for word in words:
                if _VERDICTS.setdefault(word, verdict) != verdict:
                    raise ValueError(f'"{word}" already stands for {_VERDICTS[word]}')

    def __call__(self, verdict: Verdict) -> str:
        """The plain word for a verdict."""
        return self._of[verdict][0]

    def all(self) -> list[str]:
        """All words of the page."""
        return [word for words in self._of.values() for word in words]

    @staticmethod
    def verdict(word: str) -> Verdict:
        """The verdict of any page's word.

        >>> CLAIM.verdict("partly"), CLAIM(Verdict.PASSED)
        ('failed', 'reproduced')
        """
        return _VERDICTS[word]


# Further words for a verdict.
UNFINISHED, COVERED, PARTLY, KERNELS_CHANCE = "not finished", "covered", "partly", "the kernel's chance"

# fmt: off
# Kind of page     passed        failed           undecided    not run                           not testable
TEST       = Words("passed",     "failed",        "undecided", UNFINISHED,                       "not applicable")
DOSSIER    = Words("passed",     "failed",        "undecided", ("not run", UNFINISHED, COVERED), "not applicable")
CLAIM      = Words("reproduced", ("not", PARTLY), "undecided", "not measured",                   "not testable")
VALIDATION = Words("within",     "beyond",        ("chance", KERNELS_CHANCE))
TARGET     = Words("met",        "missed")
CONTROL    = Words("as known",   "otherwise")
RECORD     = Words("agrees",     "differs")
# fmt: on

#: CSS classes and terminal colours of verdicts. Others are dim.
TONES = {Verdict.PASSED: "good", Verdict.FAILED: "bad", Verdict.UNDECIDED: "some"}
COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.UNDECIDED: "yellow"}


def colour(word: str) -> str:
    """The terminal colour of a word."""
    return COLOURS.get(_VERDICTS[word], "dim")


def together(words: Iterable[str]) -> str:
    """The joint verdict of several, in their page's words: one failure fails all, else one open one leaves all open.

    >>> together(["passed", "undecided", "not finished"]), together([])
    ('not finished', 'passed')
    """
    return min(words, key=lambda word: _WORST.index(_VERDICTS[word]), default=str(Verdict.PASSED))


def target(missed: Iterable[str]) -> str:
    """Whether all targets are met, and which are missed.

    >>> target([]), target(["goodput", "delay"])
    ('met', 'missed: goodput, delay')
    """
    names = ", ".join(missed)
    return f"{TARGET(Verdict.FAILED)}: {names}" if names else TARGET(Verdict.PASSED)


def rule(holds: bool) -> str:
    """Whether a page's single rule is met, as Markdown: a miss is bold.

    >>> rule(False)
    '**missed**'
    """
    return TARGET(Verdict.PASSED) if holds else f"**{TARGET(Verdict.FAILED)}**"
