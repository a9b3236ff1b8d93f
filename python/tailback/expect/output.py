"""A test's verdicts as text, Markdown, JUnit XML, and annotations for GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from tailback import suites
from tailback.expect.testing import Tested, TestedScenario
from tailback.expect.verdicts import Judged
from tailback.files import write_text
from tailback.judge import TEST, Interval, Verdict, colour
from tailback.numbers import written

__all__ = [
    "Row",
    "bounds_shown",
    "broken",
    "colour",
    "commands",
    "github_annotations",
    "inapplicable",
    "interval_shown",
    "junit",
    "markdown",
    "rows",
    "summary",
    "write_junit",
]

#: Verdicts that JUnit reports as skipped.
_OPEN = (Verdict.UNDECIDED, TEST(Verdict.NOT_RUN))
#: Characters that XML does not allow.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: File, line, condition, measured value, bound, seeds, verdict, reason, and the command for the worst seed.
Row = tuple[str, int | None, str, str, str, str, str, str, str]


def rows(tested: Tested) -> list[Row]:
    """One row per condition; one per scenario without verdicts."""
    out: list[Row] = []
    for each in tested.scenarios:
        seeds = str(each.seeds or "")
        out += [
            (
                each.file,
                line,
                text,
                interval_shown(one.measured),
                bounds_shown(one),
                seeds,
                one.verdict,
                one.why,
                "" if one.verdict == Verdict.PASSED else each.again(number),
            )
            for number, (text, line, one) in enumerate(zip(each.conditions, each.lines, each.judged, strict=False))
        ]
        if each.error or not each.judged:
            out.append((each.file, None, "its runs finish", "", "", seeds, each.verdict, each.error, each.again()))
    return out


def interval_shown(found: Interval) -> str:
    """A mean, with its interval if it has one."""
    if found.width == 0.0 or found.n < 2:
        return written(found.estimate, missing="-")
    return f"{written(found.estimate)} [{written(found.low)}, {written(found.high)}]"


def bounds_shown(judged: Judged) -> str:
    """The bounds of a condition, in one cell."""
    return " .. ".join(interval_shown(bound) for bound in judged.bounds)


def broken(tested: Tested) -> list[tuple[TestedScenario, str]]:
    """The controls with a wrong verdict, and what that means."""
    return [
        (each, f"the suite is broken: {each.control}; it {'ended in: ' + each.error if each.error else each.verdict}")
        for each in tested.broken
    ]


def commands(tested: Tested) -> list[tuple[str, str]]:
    """The conditions that did not pass, each with the command that runs its worst seed again."""
    out = []
    for each in tested.scenarios:
        if each.error and each.again():
            out.append((each.again(), f"{each.name}, its runs finish"))
        for number, (text, one) in enumerate(zip(each.conditions, each.judged, strict=False)):
            if one.verdict in (Verdict.FAILED, Verdict.UNDECIDED) and each.again(number):
                out.append((each.again(number), f"{each.name}, {text}"))
    return out


def inapplicable(tested: Tested) -> dict[str, int]:
    """Reasons why the candidate could not be put into scenarios, each with the number of scenarios."""
    whys = [each.why for each in tested.inapplicable]
    return {why: whys.count(why) for why in dict.fromkeys(whys)}


def summary(tested: Tested) -> str:
    """Number of scenarios by verdict, in a line."""
    parts = [f"{count} {verdict}" for verdict, count in tested.counted().items()]
    parts += [f"{len(tested.inapplicable)} not applicable"] if tested.inapplicable else []
    parts += [f"{len(tested.unreadable)} unreadable"] if tested.unreadable else []
    if known := tested.known_answers():
        of_them = ", ".join(f"{count} {verdict}" for verdict, count in known.items())
        parts.append(f"without the candidate {of_them}")
    if tested.controls:
        failed = len(tested.controls) - len(tested.broken)
        parts.append(f"{failed} of {len(tested.controls)} controls failed as they must")
    return f"scenarios: {', '.join(parts)}, in {tested.wall_s:.1f} s"


def markdown(tested: Tested) -> str:
    """The job summary for GitHub."""

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("\n", " ")

    lines = [f"### tailback test: {summary(tested)}", ""]
    lines += ["| scenario | condition | measured | bound | seeds | verdict |", "|---|---|---|---|---|---|"]
    for file, _, text, found, bound, seeds, verdict, why, _again in rows(tested):
        shown = f"**{verdict}**" if verdict != Verdict.PASSED else verdict
        cells = [f"`{suites.shown(file)}`", f"`{text}`", found, bound, seeds]
        lines.append(f"| {' | '.join(map(cell, cells))} | {shown}{': ' if why else ''}{cell(why)} |")
    lines += [f"| `{cell(suites.shown(each.file))}` | {cell(why)} | | | | **broken** |" for each, why in broken(tested)]
    lines += [f"| `{cell(bad.file)}` | | | | | **unreadable**: {cell(str(bad.error))} |" for bad in tested.unreadable]
    return "\n".join(lines) + "\n"


def github_annotations(tested: Tested) -> Iterator[str]:
    """Workflow commands that show each failed condition at its line on GitHub."""
    # A row of a cases file is shown at that file.
    source = {each.file: each.source or each.file for each in [*tested.scenarios, *tested.controls]}
    for file, line, text, found, bound, seeds, verdict, why, again in rows(tested):
        if verdict != Verdict.PASSED:
            title = f"{verdict}: {text}" if source[file] == file else f"{Path(file).stem} {verdict}: {text}"
            details = why or f"measured {found}, bound {bound}, {seeds} seeds"
            details += f"\nagain: {again}" if again else ""
            yield _annotation("error" if verdict == Verdict.FAILED else "warning", source[file], line, title, details)
    for each, why in broken(tested):
        yield _annotation("error", source[each.file], None, "broken", why)
    for bad in tested.unreadable:
        problems = getattr(bad.error, "problems", ())
        line = problems[0].line if problems else None
        yield _annotation("error", bad.file, line, "unreadable", str(bad.error))


def _annotation(kind: str, file: str, line: int | None, title: str, text: str) -> str:
    def escaped(value: str) -> str:
        return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def named(value: str) -> str:
        return escaped(value).replace(":", "%3A").replace(",", "%2C")

    if suites.shown(file) != file:
        # The package's own suites are in no repository, so GitHub could not show an annotation.
        return f"::{kind} title={named(f'{suites.shown(file)}: {title}')}::{escaped(text)}"
    place = f"file={named(file)}" + ("" if line is None else f",line={line}")
    return f"::{kind} {place},title={named(title)}::{escaped(text)}"


def junit(tested: Tested) -> str:
    """JUnit XML: a suite per scenario, a case per condition.

    Undecided or unfinished ones are skipped, with the reason.
    """
    root = ElementTree.Element("testsuites", name="tailback test", time=f"{tested.wall_s:.3f}")
    for each in tested.scenarios:
        _suite(root, each, rows(Tested([each])))
    for control, why in broken(tested):
        suite = ElementTree.SubElement(
            root, "testsuite", name=_text(control.file), tests="1", failures="1", errors="0", skipped="0", time="0"
        )
        case = ElementTree.SubElement(suite, "testcase", classname=_text(control.file), name="control fails", time="0")
        ElementTree.SubElement(case, "failure", message=_text(why), type="broken")
    for bad in tested.unreadable:
        suite = ElementTree.SubElement(
            root, "testsuite", name=_text(bad.file), tests="1", failures="0", errors="1", skipped="0", time="0"
        )
        case = ElementTree.SubElement(suite, "testcase", classname=_text(bad.file), name="can be read", time="0")
        ElementTree.SubElement(case, "error", message=_text(str(bad.error)), type="unreadable")
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _suite(root: ElementTree.Element, each: TestedScenario, rows: list[Row]) -> None:
    verdicts = [row[6] for row in rows]
    skipped = sum(verdict in _OPEN for verdict in verdicts)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_text(each.file),
        tests=str(len(rows)),
        failures=str(verdicts.count(Verdict.FAILED)),
        errors="0",
        skipped=str(skipped),
        time=f"{each.wall_s:.3f}",
    )
    for file, _, text, found, bound, seeds, verdict, why, again in rows:
        # A scenario's run time is divided among its conditions.
        time = f"{each.wall_s / len(rows):.3f}"
        case = ElementTree.SubElement(suite, "testcase", classname=_text(file), name=_text(text), time=time)
        message = _text(why or f"measured {found}, bound {bound}, {seeds} seeds")
        if verdict == Verdict.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=message, type=verdict)
            failure.text = _text(f"again: {again}") if again else None
        elif verdict in _OPEN:
            ElementTree.SubElement(case, "skipped", message=f"{verdict}: {message}" if found or why else verdict)


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


def write_junit(tested: Tested, path: Path) -> None:
    """Write the XML file atomically."""
    write_text(path, '<?xml version="1.0" encoding="UTF-8"?>\n' + junit(tested))
