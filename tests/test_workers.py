"""Tests that share something go to one worker."""

from workers import kept_together


def test_what_a_file_makes_once_for_its_tests_one_worker_makes() -> None:
    assert kept_together("tests/report/test_report.py::test_a") == kept_together("tests/report/test_report.py::test_b")
    assert kept_together("tests/test_errors.py::test_a") != kept_together("tests/test_errors.py::test_b")


def test_live_runs_follow_one_another() -> None:
    assert kept_together("tests/live/test_live.py::test_a") == kept_together("tests/live/test_order.py::test_b")
