"""What can come out of a rule, and the words that pages print for it."""

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
    """What came out. The value is the plain word, and equal to it."""

    PASSED = "passed"
    FAILED = "failed"
    #: Not known with the runs there are.
    UNDECIDED = "undecided"
    #: Nothing was measured, or not all of it.
    NOT_RUN = "not run"
    #: No run could show it, or it does not apply.
    NOT_TESTABLE = "not testable"

    def __repr__(self) -> str:
        return repr(self.value)

    @classmethod
    def of(cls, holds: bool) -> Verdict:
        """Of a rule that leaves nothing open."""
        return cls.PASSED if holds else cls.FAILED

    @classmethod
    def of_side(cls, side: int) -> Verdict:
        """By the side of a bound: 1 the good one, -1 the bad one, 0 not known."""
        return (cls.UNDECIDED, cls.PASSED, cls.FAILED)[side]


#: The worst first: one failure fails all, and what was not run or is undecided leaves all open.
_WORST = (Verdict.FAILED, Verdict.NOT_RUN, Verdict.UNDECIDED, Verdict.PASSED, Verdict.NOT_TESTABLE)
_VERDICTS: dict[str, Verdict] = {}


class Words:
    """What one kind of page prints for each verdict. A page that names reasons has further words for one verdict."""

    def __init__(self, *columns: str | tuple[str, ...]) -> None:
        """Words in the order of `Verdict`, of several the plain one first. The last may be left out."""
        self._of = {
            verdict: (words,) if isinstance(words, str) else words
            for verdict, words in zip(Verdict, columns, strict=False)
        }
        for verdict, words in self._of.items():
            for word in words:
                if _VERDICTS.setdefault(word, verdict) != verdict:
                    raise ValueError(f'"{word}" already stands for {_VERDICTS[word]}')

    def __call__(self, verdict: Verdict) -> str:
        """The plain word."""
        return self._of[verdict][0]

    def all(self) -> list[str]:
        """All words of the page, plain ones and others."""
        return [word for words in self._of.values() for word in words]

    @staticmethod
    def verdict(word: str) -> Verdict:
        """What a word stands for, of whatever page.

        >>> CLAIM.verdict("partly"), CLAIM(Verdict.PASSED)
        ('failed', 'reproduced')
        """
        return _VERDICTS[word]


# Words for one verdict beside the plain one.
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

#: The classes by which pages colour a verdict, and the colours of a terminal. Others are dim.
TONES = {Verdict.PASSED: "good", Verdict.FAILED: "bad", Verdict.UNDECIDED: "some"}
COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.UNDECIDED: "yellow"}


def colour(word: str) -> str:
    """A terminal's colour of a word."""
    return COLOURS.get(_VERDICTS[word], "dim")


def together(words: Iterable[str]) -> str:
    """Of several, in the words of their page: one failure fails all, and what is open leaves all open.

    >>> together(["passed", "undecided", "not finished"]), together([])
    ('not finished', 'passed')
    """
    return min(words, key=lambda word: _WORST.index(_VERDICTS[word]), default=str(Verdict.PASSED))


def target(missed: Iterable[str]) -> str:
    """Whether targets are met, and which are missed.

    >>> target([]), target(["goodput", "delay"])
    ('met', 'missed: goodput, delay')
    """
    names = ", ".join(missed)
    return f"{TARGET(Verdict.FAILED)}: {names}" if names else TARGET(Verdict.PASSED)


def rule(holds: bool) -> str:
    """The same of a page's one rule, as Markdown: a miss is bold.

    >>> rule(False)
    '**missed**'
    """
    return TARGET(Verdict.PASSED) if holds else f"**{TARGET(Verdict.FAILED)}**"
