"""How many seeds a verdict may use: fixed rounds, or more seeds until it is decided."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rounds", "Sequential"]


@dataclass(frozen=True)
class Rounds:
    """Total seeds after each round; a further round is only for undecided verdicts."""

    counts: tuple[int, ...]

    @property
    def most(self) -> int:
        """Seeds after the last round."""
        return self.counts[-1]

    def more(self, have: int) -> int:
        """How many seeds to add to those there are.

        >>> [Rounds((5, 10, 20)).more(have) for have in (0, 5, 20)]
        [5, 5, 0]
        """
        return next((count - have for count in self.counts if count > have), 0)


@dataclass(frozen=True)
class Sequential:
    """At least `least` seeds, then a quarter more each time: a look has a small cost, and a late end wastes little."""

    least: int
    most: int

    def more(self, have: int) -> int:
        """How many seeds to add to those there are.

        >>> [Sequential(5, 20).more(have) for have in (0, 5, 16, 19, 20)]
        [5, 2, 4, 1, 0]
        """
        return self.least if not have else min(max(2, have // 4), self.most - have)
