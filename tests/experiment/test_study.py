"""Studies: rules, standings, and the runs that are found again."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tailback as tb
from tailback.errors import ResultError
from tailback.experiment import (
    AtLeast,
    AtMost,
    Cell,
    Choice,
    Claim,
    Data,
    Measured,
    Near,
    NotRun,
    Plot,
    Standing,
    Study,
    TableOut,
    Within,
    certain,
    fitted,
    judge,
    of,
    stand,
    studies,
)
from tailback.experiment.claims import cited

# --- Rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "value", "verdict"),
    [
        (Near(1.85), 1.85, "reproduced"),
        (Near(1.85), 1.58, "reproduced"),
        (Near(1.85), 1.5, "partly"),
        (Near(1.85), 1.0, "not"),
        (AtLeast(90, 60), 90, "reproduced"),
        (AtLeast(90, 60), 89.9, "partly"),
        (AtLeast(90, 60), 59.9, "not"),
        (AtMost(3, 5), 3, "reproduced"),
        (AtMost(3, 5), 4, "partly"),
        (AtMost(3, 5), 5.1, "not"),
        (Within(1, 2, 0, 3), 1.5, "reproduced"),
        (Within(1, 2, 0, 3), 2.5, "partly"),
        (Within(1, 2, 0, 3), 3.5, "not"),
        (Near(1.85), float("nan"), "not measured"),
    ],
)
def test_rules_decide_at_their_thresholds(rule, value, verdict):
    assert rule.word(value) == verdict
    assert rule.words()


# --- A small study of real runs ---------------------------------------------------------------------------------


def tiny(extract: Any = None, revision: str = "1") -> Study:
    def cells(quick: bool) -> list[Cell]:
        made = []
        for cc in ("reno", "cubic"):
            scenario = tb.dumbbell(
                rate="1mbit",
                rtt="40ms",
                queue="1bdp",
                flows=[tb.bulk(cc, name="tcp"), tb.voip(name="call")],
                duration="4s",
                name=cc,
                instruments={"polls": ["tcp"], "packets": ["call"]},
            )
            made.append(Cell(cc, cc, scenario, {"cc": cc}, keep_tables=cc == "cubic"))
        return made[:1] if quick else made

    def summarise(cell: Cell, result: Any) -> dict[str, Any]:
        return {"goodput": _goodput(result), "cell": cell.key}

    def goodput(data: Data, seed: int) -> Measured | None:
        return Measured(data.need(seed, cc="reno")["goodput"] / 1e6, {"part": 1.0})

    def figure(_: Data) -> Any:
        from tailback.plots.style import new_figure

        return new_figure(height=1.0)[0]

    claim = Claim("T-1", "it moves <fast>", "", "1", " Mbit/s", "goodput", goodput, AtLeast(0.5, 0.1), "f")
    other = Claim("T-2", "not looked at", "", "1", "", "nothing", lambda _d, _s: None, AtMost(1, 2), "f")
    return Study(
        name="tiny",
        title="A tiny study",
        paper="none",
        doc="",
        revision=revision,
        grid=cells,
        extract=extract or summarise,
        claims=(claim, other),
        plots=(Plot("f", "a figure", "nothing to see", figure),),
        tables=lambda _: [
            TableOut("t", "A table", "of one cell", ["path", "value"], [["here", "1"]]),
            TableOut("e", "An empty one", "left out", ["path", "value"], []),
        ],
    )


def _goodput(result: Any) -> float:
    from tailback import metrics

    return metrics.goodput(result, "tcp")


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_a_study_runs_judges_draws_and_reports(tmp_path):
    result = tiny().run(tmp_path, seeds=3, progress=False)
    assert (result.cells_run, result.cells_reused) == (6, 0)
    assert [table.name for table in result.tables] == ["t"]
    first, second = result.claims
    assert first.verdict == "reproduced"
    assert len(first.values) == 3
    assert "…" in first.spread
    assert (second.verdict, second.ours, second.spread) == ("not measured", "–", "–")
    assert result.report_path.exists()
    written = files_in(tmp_path)
    assert {"report.html", "study.json", "claims.json", "figures/f.png", "figures/f.pdf"} <= written
    assert [name.split("/")[-1] for name in written if name.startswith("runs/tables/")].count("meta.json") == 1
    assert not any(Path(name).name.startswith(".") for name in written)
    assert result.simulated_s == pytest.approx(24.0)


def test_its_json_is_plain_and_reads_back(tmp_path):
    result = tiny().run(tmp_path, seeds=2, progress=False)
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    claim = plain["claims"][0]
    assert {"id", "paper", "ours", "spread", "verdict", "threshold", "figure", "values"} <= set(claim)
    assert studies.is_study(tmp_path)
    again = studies.load(tmp_path)
    assert [c.verdict for c in again.claims] == [c.verdict for c in result.claims]
    assert again.report_path == result.report_path


def test_finished_cells_are_not_run_again(tmp_path):
    tiny().run(tmp_path, seeds=1, progress=False)
    again = tiny().run(tmp_path, seeds=2, progress=False)
    assert (again.cells_run, again.cells_reused) == (2, 2)


def test_an_interrupted_study_resumes_where_it_stopped(tmp_path):
    calls = []

    def failing(cell: Cell, result: Any) -> dict[str, Any]:
        calls.append(cell.key)
        if len(calls) == 3:
            raise RuntimeError("the light went out")
        return {"goodput": _goodput(result)}

    with pytest.raises(RuntimeError, match="the light went out"):
        tiny(failing).run(tmp_path, seeds=3, progress=False, workers=1)
    kept = len(tb.open_store(tmp_path / "runs").frame())
    assert kept == 2
    assert not (tmp_path / "study.json").exists()
    result = tiny().run(tmp_path, seeds=3, progress=False)
    assert result.cells_reused in (kept, kept - 1)  # One may lack its tables, which the figure cell needs.
    assert result.cells_run + result.cells_reused == 6


def test_a_damaged_line_of_the_store_is_run_again(tmp_path):
    study, store = tiny(), tb.Store(tmp_path / "runs")
    with store.writer():
        study.run(tmp_path, seeds=1, progress=False)
        # As a writer that was killed leaves it: a journal that was never folded.
        for part in store.parts():
            rows = pl.read_parquet(part).to_dicts()
            part.unlink()
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert study.run(tmp_path, seeds=1, progress=False).cells_run == 2


def test_numbers_of_a_study_can_be_asked_in_sql(tmp_path):
    tiny().run(tmp_path, seeds=2, progress=False)
    found = tb.open_store(tmp_path / "runs").query("SELECT cc, seed, goodput FROM runs ORDER BY cc, seed")
    assert found.select("cc", "seed").rows() == [("cubic", 1), ("cubic", 2), ("reno", 1), ("reno", 2)]
    assert (found["goodput"] > 1e5).all()


def test_another_revision_of_the_extraction_does_not_mix_with_the_old(tmp_path):
    tiny().run(tmp_path, seeds=1, progress=False)
    assert tiny(revision="2").run(tmp_path, seeds=1, progress=False).cells_run == 2


def test_missing_tables_of_a_figure_cell_are_made_again(tmp_path):
    tiny().run(tmp_path, seeds=1, progress=False)
    (tables,) = (tmp_path / "runs" / "tables").glob("*/*")
    shutil.rmtree(tables)
    assert tiny().run(tmp_path, seeds=1, progress=False).cells_run == 1


def test_the_same_seeds_give_the_same_claims_on_any_number_of_workers(tmp_path):
    one = tiny().run(tmp_path / "one", seeds=2, progress=False, workers=1)
    two = tiny().run(tmp_path / "two", seeds=2, progress=False, workers=2)
    assert [c.values for c in one.claims] == [c.values for c in two.claims]


def test_a_cancelled_study_keeps_what_it_has(tmp_path):
    cancel = tb.Cancel()
    cancel.set()
    with pytest.raises(tb.Cancelled):
        tiny().run(tmp_path, seeds=1, progress=False, cancel=cancel)
    assert not (tmp_path / "report.html").exists()


def test_quick_runs_one_seed_of_fewer_cells(tmp_path):
    assert tiny().run(tmp_path, seeds=5, quick=True, progress=False).cells_run == 1


def test_full_runs_the_papers_scale_where_there_is_one(tmp_path):
    assert tiny().run(tmp_path / "one", seeds=1, full=True, progress=False).cells_run == 2
    small = dataclasses.replace(tiny(), full_grid=lambda: [*tiny().grid(True)])
    result = small.run(tmp_path / "two", seeds=2, full=True, progress=False)
    assert result.cells_run == 2
    assert result.meta["command"] == "tailback study tiny --full --seeds 2"


def test_a_study_has_its_own_number_of_seeds(tmp_path):
    assert dataclasses.replace(tiny(), seeds=2).run(tmp_path, progress=False).cells_run == 4


def test_quick_and_full_together_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not both"):
        tiny().run(tmp_path, quick=True, full=True, progress=False)


def test_a_readme_that_no_study_wrote_is_left_alone(tmp_path):
    (tmp_path / "README").write_text("My project.\n")
    with pytest.raises(ResultError, match="no study wrote it"):
        tiny().run(tmp_path, progress=False)
    assert (tmp_path / "README").read_text() == "My project.\n"


def test_no_seed_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one seed"):
        tiny().run(tmp_path, seeds=0, progress=False)


def test_the_claims_table_prints(tmp_path, capsys):
    from rich.console import Console

    tiny().run(tmp_path, seeds=1, progress=False).print(Console(width=140))
    out = capsys.readouterr().out
    assert "T-1" in out
    assert "reproduced" in out
    assert "report.html" in out.replace("\n", "")


# --- What claims read ---


def made_data() -> Data:
    cells = {cell.key: cell for cell in tiny().grid(False)}
    found = {("cubic", 2): {"goodput": 4.0, "epochs": [1.0]}, ("reno", 1): {"goodput": 2}}
    return Data(cells, found, (1, 2), {"cubic": Path("nowhere")})


def test_runs_are_found_by_their_factors_and_a_claim_says_what_it_needs():
    data = made_data()
    assert (data.key(cc="reno"), data.key(cc="vegas"), data.key()) == ("reno", "", "")
    assert data.run(1, cc="reno") == {"goodput": 2}
    assert data.run(2, cc="reno") is None
    assert data.runs(cc="cubic") == [data.run(2, cc="cubic")]
    assert [(cell.key, len(found)) for cell, found in data.each(cc="cubic")] == [("cubic", 1)]
    assert [cell.key for cell, _ in data.each()] == ["reno", "cubic"]
    with pytest.raises(NotRun, match="seed 2"):
        data.need(2, cc="reno")
    claim = dataclasses.replace(
        tiny().claims[0], measure=lambda data, seed: Measured(data.need(seed, cc="reno")["goodput"])
    )
    assert judge(claim, data).values == [2.0]


def test_a_frame_has_a_row_a_run_in_the_grids_order():
    frame = made_data().frame
    assert frame.select("cell", "seed", "cc", "goodput").rows() == [
        ("reno", 1, "reno", 2.0),
        ("cubic", 2, "cubic", 4.0),
    ]
    assert frame["epochs"].to_list() == [None, [1.0]]


def test_a_claim_is_an_expression_over_one_seeds_runs():
    claim = dataclasses.replace(tiny().claims[0], measure=10 * pl.col("goodput").filter(cc="cubic").first())
    judged = judge(claim, made_data())
    assert (judged.values, judged.verdict) == ([40.0], "reproduced")
    assert judge(claim, Data({}, {}, (1,))).verdict == "not measured"


def test_cells_that_nothing_distinguishes_are_refused():
    cells = {cell.key: dataclasses.replace(cell, factors={"path": "here"}) for cell in tiny().grid(False)}
    with pytest.raises(ValueError, match="reno and cubic have the same factors"):
        Data(cells, {}, (1,)).run(1, path="here")


# --- What a verdict is worth ---


def _claim(name: str, measure: Any, rule: Any, **more: Any) -> Claim:
    return Claim(name, "", "", "", more.pop("unit", ""), "", measure, rule, "f", **more)


def _of_seeds(*values: float, **parts: float) -> Any:
    return lambda _, seed: Measured(values[seed - 1], parts)


def test_a_rule_that_nothing_violates_is_refused():
    with pytest.raises(ValueError, match=r"T-1: no value from 0 to 100 violates its rule .* certain\(reason\)"):
        _claim("T-1", _of_seeds(1.0), AtMost(100.0, 120.0), possible=(0.0, 100.0))
    with pytest.raises(ValueError, match="no value from 0 to inf violates"):
        _claim("T-1", _of_seeds(1.0), AtLeast(0.0, 0.0), unit="×")
    with pytest.raises(ValueError, match="no value from 0 to 1 meets its rule"):
        _claim("T-1", _of_seeds(1.0), Near(2.0), possible=(0.0, 1.0))
    free = _claim("T-1", _of_seeds(1.0), AtMost(100.0, 120.0), possible=(0.0, 100.0), standing=certain("a share"))
    assert free.standing.kind == "cannot fail"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((11.0, 12.0, 11.0, 12.0, 10.0), "reproduced"),  # every seed
        ((11.0, 12.0, 11.5, 12.0, 9.9), "reproduced"),  # the interval of their mean: 11.28 ± 1.08
        ((11.0, 12.0, 11.0, 12.0, 1.0), "undecided"),
        ((11.0, 10.5, 9.9), "undecided"),
        ((9.0, 9.0, 11.0), "partly"),
    ],
)
def test_a_median_alone_reproduces_nothing(values, verdict):
    data = Data({}, {}, tuple(range(1, len(values) + 1)))
    assert judge(_claim("T-1", _of_seeds(*values), AtLeast(10.0, 8.0)), data).verdict == verdict


def test_what_a_choice_names_is_fitted_and_an_unknown_claim_is_refused():
    claims = [_claim(name, _of_seeds(value), AtLeast(1.0, 0.5)) for name, value in (("T-1", 1.0), ("T-2", 2.0))]
    found = stand(claims, [Choice("The queue.", ("T-2",))])
    assert [found[name].kind for name in ("T-1", "T-2")] == ["predicted", "fitted"]
    assert "The queue." in found["T-2"].reason
    with pytest.raises(ValueError, match="names the claim T-9"):
        stand(claims, [Choice("The queue.", ("T-9",))])
    with pytest.raises(ValueError, match="names the claim T-9"):
        dataclasses.replace(tiny(), chosen=(Choice("The queue.", ("T-9",)),))


def test_claims_that_share_their_measure_count_once():
    def share(factor: float) -> Any:
        return of("x", lambda found: factor * found, cc="reno")

    claims = [
        _claim("T-1", share(1.0), AtLeast(1.0, 0.5)),
        _claim("T-2", share(2.0), AtLeast(1.0, 0.5)),
        _claim("T-3", share(1.0), AtLeast(2.0, 0.5)),
    ]
    found = stand(claims, ())
    assert [found[claim.id].kind for claim in claims] == ["predicted", "predicted", "restated"]
    assert stand(claims, [Choice("", ("T-1",))])["T-3"].kind == "fitted"
    # What the third's fit decides, it decides of the first too.
    assert stand(claims, [Choice("", ("T-3",))])["T-1"].kind == "fitted"


def test_a_reason_cites_measured_figures():
    claim = _claim("T-1", _of_seeds(1.0, share=0.25), AtLeast(9.0, 5.0), why="As {share} of {T-2} and {none}.")
    assert judge(claim, Data({}, {}, (1,))).why == "As 0.25 of {T-2} and (none: not measured)."
    assert cited("{T-2}", {"T-2": "3 ms"}) == "3 ms"


def test_stored_runs_are_judged_again_whatever_engine_ran_them(tmp_path, monkeypatch):
    with monkeypatch.context() as other:
        for module in ("experiment.store", "experiment.study", "experiment.runner", "experiment.workers"):
            other.setattr(f"tailback.{module}.engine_fingerprint", lambda: "0.0.0+another")
        ran = tiny().run(tmp_path, seeds=2, progress=False)
    first, *rest = tiny().claims
    stricter = dataclasses.replace(first, rule=AtLeast(1e6, 1e5))
    again = dataclasses.replace(tiny(), claims=(stricter, *rest)).judge_again(tmp_path)
    assert (ran.claims[0].verdict, again.claims[0].verdict) == ("reproduced", "not")
    assert again.claims[0].values == ran.claims[0].values
    assert again.meta["engine"] == "0.0.0+another"
    assert (again.cells_run, again.wall_s) == (ran.cells_run, ran.wall_s)
    with pytest.raises(ResultError, match=r"lacks 4 runs .* tailback study tiny --out"):
        tiny(revision="2").judge_again(tmp_path)


def test_a_standing_is_one_of_five():
    with pytest.raises(ValueError, match="not 'guessed'"):
        Standing("guessed", "")


def test_a_standing_goes_into_the_result_and_is_kept(tmp_path):
    one = tiny()
    first, *rest = one.claims
    marked = dataclasses.replace(first, standing=fitted("chosen for it"), redefined="was another")
    dataclasses.replace(one, claims=(marked, *rest)).run(tmp_path, seeds=2, progress=False)
    kept = studies.load(tmp_path).claims
    assert (kept[0].standing, kept[0].because, kept[0].redefined) == ("fitted", "chosen for it", "was another")
    assert kept[0].scale == "rate 1, time 1, 2 seeds"
    assert {claim.standing for claim in kept[1:]} <= {"predicted"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Fitted: chosen for it" in page
    assert "was another" in page


def test_a_condition_that_does_not_hold_undoes_the_claim():
    def measure(holds: tuple[bool, ...]) -> Claim:
        return Claim("T", "", "", "", "", "", lambda _, seed: Measured(1.0, holds=holds[seed - 1]),
                     AtLeast(0.5, 0.1), "f")  # fmt: skip

    data = Data({}, {}, (1, 2, 3, 4))
    assert judge(measure((True,) * 4), data).verdict == "reproduced"
    judged = judge(measure((True, True, True, False)), data)
    assert judged.verdict == "undecided"
    assert "does not hold in 1 of 4 seeds" in judged.note
    assert judge(measure((True, True, False, False)), data).verdict == "not"


def test_an_unknown_study_suggests_the_nearest():
    with pytest.raises(studies.UnknownStudy, match="voip-latency"):
        studies.get("voip-latancy")


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_run(tmp_path):
    (tmp_path / "file").write_text("here first")
    calls = []
    study = tiny(lambda cell, result: calls.append(cell) or {})
    with pytest.raises(tb.ResultError, match="not a folder"):
        study.run(tmp_path / "file" / "out", seeds=1, progress=False)
    assert not calls
