"""Summarizes results in at most ten sentences: who gains, who suffers, by how much, and how certain that is.

`answer` summarizes one result, `answer_of_runs` a sweep's runs, `compared.answer_of_comparison` results side by side.
Every number in a sentence is a measure of `tailback.metrics`, or a sweep's stored value of one.
"""

from tailback.answer.one import answer
from tailback.answer.parts import Answer, Measured, Person, Statement
from tailback.answer.several import answer_of_runs

__all__ = ["Answer", "Measured", "Person", "Statement", "answer", "answer_of_runs"]
