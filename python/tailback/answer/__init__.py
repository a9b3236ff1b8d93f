"""What results come to, in at most ten sentences: who gains, who suffers, by how much, and how certain that is.

`answer` is of one result, `answer_of_runs` of a sweep's runs, `compared.answer_of_comparison` of results side by side.
Every number in a sentence is a measure of `tailback.metrics`, or what a sweep keeps of one.
"""

from tailback.answer.one import answer
from tailback.answer.parts import Answer, Measured, Person, Statement
from tailback.answer.several import answer_of_runs

__all__ = ["Answer", "Measured", "Person", "Statement", "answer", "answer_of_runs"]
