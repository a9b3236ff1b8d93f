"""The documents' promises: a link leads somewhere, and what is named exists."""

import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import tailback as tb
from tailback import registry
from tailback.cli import app
from tailback.experiment import studies

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
READMES = [
    path for folder in ("crates", "papers", "python", "validation") for path in ROOT.glob(f"{folder}/**/README.md")
]
LINKED = sorted([*DOCUMENTS, *READMES, *ROOT.glob("docs/**/*.ipynb")])
"""Documents whose links are followed; `bench/notes.md` is a part of a page."""


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    # As the web shows them: lower case, hyphens for spaces, no punctuation.
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


RECORD = "record.html"
"""A page that the site's build makes from what is committed (scripts/record.py), and a test of its own reads."""


def prose(document: Path) -> str:
    """The text of a document without code; of a notebook its Markdown cells."""
    text = document.read_text()
    if document.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    text = prose(document)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    targets += re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    dead = []
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        if name == RECORD:
            continue
        file = document.parent / name if name else document
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert dead == []


def test_a_page_leads_to_every_notebook() -> None:
    guide = ROOT / "docs"
    pages = "".join(path.read_text() for path in guide.glob("**/*.md"))
    for notebook in guide.glob("**/*.ipynb"):
        assert f"({notebook.name})" in notebook.with_suffix(".md").read_text()
        assert f"notebooks/{notebook.stem}.md)" in pages


def test_the_map_names_what_exists() -> None:
    """A path in ARCHITECTURE or CONTRIBUTING exists; one with a placeholder has at least its folder."""
    for document in (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"):
        paths = re.findall(
            r"`((?:bench|bpf|crates|docs|explorer|papers|python|scenarios|scripts|tests|validation)/[^`\s]*)`",
            document.read_text(),
        )
        assert paths
        assert [path for path in paths if not (ROOT / path.split("<")[0]).exists()] == [], document.name


def test_each_lane_has_a_guard_a_plain_twin_and_a_test_that_exist() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().partition("## Lanes")[2].partition("\n## ")[0]
    source = "".join(
        path.read_text() for folder in ("src", "tests") for path in ROOT.glob(f"crates/tailback-core/{folder}/**/*.rs")
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| "]
    assert len(rows) > 5
    for lane, *cells in rows[2:]:
        for cell in cells:
            names = [name.rpartition("::")[2] for name in re.findall(r"`([\w:]+)`", cell)]
            assert names or cell.startswith("none"), (lane, cell)
            unknown = [name for name in names if not re.search(rf"\b(?:fn|struct) {name}\b|\bpub {name}: bool", source)]
            assert unknown == [], lane
    fields = re.findall(r"pub (\w+): bool", (ROOT / "crates/tailback-core/src/tcp/stack/lanes.rs").read_text())
    assert set(re.findall(r"`Lanes::(\w+)`", section)) == set(fields), "a lane of the stack is missing here"


def test_the_readme_shows_python_that_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], check=True, stdout=subprocess.DEVNULL)


def command_lines(text: str) -> list[str]:
    """Calls of `tailback` in a text: lines of blocks and comments, and what stands in backquotes."""
    text = re.sub(r"\\\n\s*", " ", text)
    lines = re.findall(r"^ *(?:#\s+|\$ )?(?:sudo )?(?:\.venv/bin/)?tailback ([a-z].*)$", text, re.MULTILINE)
    inline = re.findall(r"`(?:\$ )?(?:sudo )?tailback ([a-z][^`]*)`", text)
    return [re.split(r"\s#\s", " ".join(line.split()))[0] for line in lines + inline]


def wrong_in(call: str, command: Any) -> str | None:
    """The first word of a call that names no command or option."""
    words = call.split()
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            return None
        if words[0] not in command.commands:
            return words[0]
        command, words = command.commands[words[0]], words[1:]
    options = {name for each in command.params for name in [*each.opts, *each.secondary_opts]} | {"--help", "-h"}
    given = [found[0] for word in words if (found := re.match(r"--[\w-]+", word))]
    return next((name for name in given if name not in options), None)


def test_every_command_that_may_run_code_is_listed() -> None:
    text = " ".join((ROOT / "docs/security.md").read_text().split())
    asks = re.search(
        r"`--allow-code` of `tailback (.*?)\. In Python it is `allow_code=True` of `tb\.(.*?)\. Without", text
    )
    assert asks
    commands, functions = (set(re.findall(r"[a-z_]+(?=`)", part)) for part in asks.groups())
    tailback: Any = typer.main.get_command(app)
    assert commands == {
        name for name, each in tailback.commands.items() if any("--allow-code" in it.opts for it in each.params)
    }
    takes = {name for name in tb.__all__ if "allow_code" in _parameters(getattr(tb, name))}
    assert functions == {*takes - {"Candidate"}, "run"}


def _parameters(what: Any) -> set[str]:
    try:
        return set(inspect.signature(what).parameters)
    except (TypeError, ValueError):
        return set()


PROSE = {"README.md: measures", "docs/index.md: measures", "python/tailback/cli/pcap.py: …"}
"""Sentences about tailback that look like calls."""


def test_every_command_line_names_a_command_and_its_options() -> None:
    patterns = [f"{folder}/**/*.{kind}" for folder in ("python/tailback", "papers") for kind in ("py", "md", "toml")]
    places = [*DOCUMENTS, *(path for pattern in patterns for path in ROOT.glob(pattern))]
    calls = [(path, call) for path in places for call in command_lines(path.read_text())]
    assert len(calls) > 300
    tailback = typer.main.get_command(app)
    assert wrong_in("run a.toml --speed 7", tailback) == "--speed"
    assert wrong_in("results shwo KEY", tailback) == "shwo"
    wrong = {f"{path.relative_to(ROOT)}: {word}" for path, call in calls if (word := wrong_in(call, tailback))}
    assert wrong == PROSE


def test_the_readme_is_short_and_shows_outputs() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    assert len(re.findall(r"^```console", text, re.MULTILINE)) >= 5


def test_the_readme_names_files_that_exist() -> None:
    files = re.findall(r"scenarios/[\w/.-]+\.toml", (ROOT / "README.md").read_text())
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


TRUST = {
    "Linux's CAKE | {cells} cells | [{within} within both bounds; 95 % asked: {verdict}]": (
        "validation-cake.md",
        r"rule is \*\*(?P<verdict>\w+)\*\*: (?P<within>\d+) of (?P<cells>\d+) cells",
    ),
    "Linux's netem | {cells} cells | [{within} within 2 % of goodput; {asked} asked: {verdict}]": (
        "validation-netem.md",
        r"by 2 % at most\. That must hold in (?P<asked>\d+) of .* The rule is \*\*(?P<verdict>\w+)\*\*: "
        r"(?P<within>\d+) of (?P<cells>\d+) cells",
    ),
    "captures | [{within} of {numbers} numbers agree]": (
        "validation-captures.md",
        r"\*\*(?P<within>\d+) of (?P<numbers>\d+) numbers agree",
    ),
    "the five papers | {claims} claims | Of those predicted, {printed} printed numbers and {words} statements in words "
    "are reproduced ({first} and {first_words} without the rules that changed after results)": (
        "studies/index.md",
        r"\| \*\*all\*\* \| (?P<claims>\d+) .* printed numbers (?P<printed>\d+ of \d+), \d+ %; "
        r"words (?P<words>\d+ of \d+), .* Without those marked †: printed numbers (?P<first>\d+ of \d+), \d+ %; "
        r"words (?P<first_words>\d+ of \d+),",
    ),
}
"""What README's table says of a page, and where that page has it."""


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("said", TRUST)
def test_the_readme_says_what_came_out_as_the_page_does(said: str) -> None:
    name, place = TRUST[said]
    found = re.search(place, " ".join(_page(name).split()))
    assert found
    assert f"| {said.format(**found.groupdict())}" in (ROOT / "README.md").read_text()


def test_the_readme_counts_the_rows_of_pages_without_a_total() -> None:
    readme = (ROOT / "README.md").read_text()
    queues = re.findall(r"^Within both bounds: sim (\d+) of (\d+)", _page("validation-queues.md"), re.MULTILINE)
    within, cells = (sum(map(int, column)) for column in zip(*queues, strict=True))
    assert f"| Linux's own queues | {cells} cells | [{within} within both bounds]" in readme

    row = r"^\| `\w+` \| (\d+) \| (\d+) \|.*\| (kept up|missed)"
    flows = re.findall(row, _page("validation-flow-queues.md"), re.MULTILINE)
    cells, within = (sum(int(each[at]) for each in flows) for at in (0, 1))
    missed = f"{sum(each[2] == 'missed' for each in flows)} of {len(flows)} queues missed the rule"
    assert f"| Linux's flow queues | {cells} cells | [{within} within both bounds; {missed}: " in readme

    parts = re.split(r"^## ", _page("validation.md"), flags=re.MULTILINE)
    kernel, ns2 = (
        re.findall(r"\| (met|missed)[^|]* \|$", part, re.MULTILINE)
        for title in ("Against Linux 6.1\n", "Against ns-2\n")
        for part in parts
        if part.startswith(title)
    )
    met = f"{kernel.count('met')} of {len(kernel)} rows meet their targets, {ns2.count('met')} of {len(ns2)} of ns-2"
    assert f"| Linux 6.1, ns-2 | one path | {met}" in readme


def test_how_close_to_linux_is_what_the_sampled_page_says() -> None:
    bounds = "within 5 % of {}goodput and 10 % of {}median delay"
    beside, alone, of_linux = (
        bounds.format(*of) for of in (("the kernel's ", "its "), ("", ""), ("Linux 6.1's ", "its "))
    )
    lead = rf"\*\*Of (\d+) cells ([\d.]+ %) are {beside}; 95 % were asked: (\w+)\."
    page = (ROOT / "docs/validation-sampled.md").read_text()
    found = re.search(lead, page)
    assert found
    cells, share, verdict = found.groups()
    faster = re.search(r"\n## \S+\*4 against \S+\n\n(\d+) cells; ([\d.]+ %) within both bounds", page)
    assert faster
    readme, index = (" ".join((ROOT / page).read_text().split()) for page in ("README.md", "docs/index.md"))
    paths = f"{cells} sampled paths with loss, AQM and reordering"
    assert f"| {paths} | {share} {alone}; 95 % asked: [{verdict}]" in readme
    said = f"the kernel on a processor four times as fast is as close to itself on {faster[2]} of the first {faster[1]}"
    assert f"{said} paths |" in readme
    said = f"Of {cells} sampled paths the simulator is {of_linux} in {share}."
    assert f"{said} The rule asked for 95 %: [{verdict}]" in index


def test_the_dossiers_say_of_a_model_what_the_comparison_s_page_says() -> None:
    row = r"^\| \[(\w+)\]\(\w+\.md\) \| `[\w.-]+` \| \[(\d+)\]\(\.\./([\w-]+\.md)\) \| (\d+) \|$"
    rows = re.findall(row, _page("assess/index.md"), re.MULTILINE)
    assert len(rows) > 10
    for page in {page for _, _, page, _ in rows}:
        cells, within = (sum(int(each[at]) for each in rows if each[2] == page) for at in (1, 3))
        lead = f"**Of {cells} cells {100 * within / cells:.1f} % are within"
        assert lead in _page(page), f"{page}: run scripts/assess_pages without a folder"
    for name, cells, page, within in rows:
        said = f"{within} of {cells} sampled cells agree with its own code on"
        assert re.search(rf"^Model: {said} .*{re.escape(page)}", _page(f"assess/{name}.md"), re.MULTILINE), name


def test_each_dossier_counts_the_same_criteria() -> None:
    counts = {}
    for name in registry.names("algorithms"):
        dossier = f"assess/{name}.md"
        found = (ROOT / "docs" / dossier).is_file()
        assert found, f"docs/{dossier} is missing: run tailback assess {name}, then scripts/assess_pages"
        tally = re.search(r"^\d+ criteria passed, .* not applicable\.", _page(dossier), re.MULTILINE)
        assert tally
        counts[name] = sum(map(int, re.findall(r"(?<!\()\b\d+", tally[0])))
    assert len(set(counts.values())) == 1, counts


def test_the_sizes_of_studies_are_those_of_their_grids() -> None:
    said = re.findall(r"tailback study (\S+) +# (\d+) cells × (\d+) seeds", "".join(map(Path.read_text, DOCUMENTS)))
    assert len(said) == 2
    for name, cells, seeds in said:
        found = studies.get(name)
        assert (len(found.grid(False)), found.seeds) == (int(cells), int(seeds)), f"correct docs/studies/{name}.md"
    demo = studies.get("voip-latency")
    runs = sum(demo.seeds if cell.seeds is None else cell.seeds for cell in demo.grid(False))
    assert f"# repeats a paper: {runs} runs" in (ROOT / "README.md").read_text()


def test_the_overview_says_what_the_paper_s_scale_changes() -> None:
    page = (ROOT / "docs/studies/high-speed-harm.md").read_text()
    moved = re.search(r"`tailback study high-speed-harm --full .*\. (\d+ of \d+ verdicts are others) than", page)
    assert moved
    said = f"At the paper's scale {moved[1]} (one seed, engine of 0.2.0)."
    assert said in (ROOT / "docs/studies/index.md").read_text()


def test_ci_runs_what_contributing_says() -> None:
    script = (ROOT / ".ci/run").read_text()
    always = re.findall(r"^exec make .* ([a-z-]+) \"\$\{more\[@\]\}\"$", script, re.MULTILINE)
    called = always + re.findall(r"^\s*more\+?=\(([a-z-]+)\)$", script, re.MULTILINE)
    said = (ROOT / "CONTRIBUTING.md").read_text().split("CI runs")[1].split(".\n")[0]
    assert sorted(re.findall(r"`make ([a-z-]+)`", said)) == sorted(called)


def test_decisions_are_all_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (folder / "README.md").read_text())
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))


def _about(page: str, name: str) -> list[str]:
    """Sections of a page that are about a name; of a folder the pages that write it."""
    texts = [path.read_text() for path in sorted(ROOT.glob(page))]
    if len(texts) > 1:
        return [text for text in texts if f'"{name}"' in text or f"`{name}`" in text]
    parts = re.split(r"^## ", texts[0], flags=re.MULTILINE)[1:]
    return [part for part in parts if name in re.split(r" and ", part.splitlines()[0])]


@pytest.mark.parametrize(
    ("kind", "page"), [("apps", "docs/applications.md"), ("queues", "docs/queues*.md"), ("media", "docs/links/*.md")]
)
def test_everything_by_name_has_a_figure_its_source_and_what_it_leaves_out(kind: registry.Kind, page: str) -> None:
    for name in registry.names(kind):
        about = _about(page, name)
        made = re.compile(rf"<!-- cards of {kind}: (?:[\w -]+ )?{name}(?: [\w -]+)? -->")
        assert any("![" in text and made.search(text) and "**Left out.**" in text for text in about), (
            f"{name} needs a section in {page} with a figure and the marks `cards of {kind}: {name}` and `left out of "
            f"{kind}: {name}`, which scripts/cards_in_pages fills"
        )


def test_laws_and_sources_on_the_pages_are_those_of_the_cards() -> None:
    made = runpy.run_path(str(ROOT / "scripts/cards_in_pages"))
    for path in made["PAGES"]:
        text = path.read_text()
        assert made["page"](text) == text, f"{path.name} is old: run scripts/cards_in_pages"


def test_a_model_says_its_law_and_source_on_its_card_alone() -> None:
    sources = ROOT.glob("crates/tailback-core/src/*/*.rs")
    models = [path for path in sources if "const CARD: Card = C" in path.read_text()]
    assert len(models) > 40
    for path in models:
        assert not re.search(r"^//! (Law|Source|Differs from the source):", path.read_text(), re.MULTILINE), path.name


def test_the_tables_and_types_of_the_schema_are_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts/scenario_page"))
    for path, text in ((made["PAGE"], made["page"](made["PAGE"].read_text())), (made["TYPES"], made["types"]())):
        assert path.read_text() == text, f"{path.name} is old: run scripts/scenario_page"


@pytest.mark.parametrize(
    ("page", "chapter"),
    [("docs/stacks.md", "Which field does what"), ("docs/live-hosts.md", "Which fields of the stack hosts follow")],
)
def test_every_field_of_a_stack_has_its_place(page: str, chapter: str) -> None:
    text = (ROOT / page).read_text().split(f"## {chapter}\n")[1].split("\n## ")[0]
    fields = [field.name for field in registry.load().stacks[0].fields]
    assert len(fields) > 50
    assert [name for name in fields if not re.search(rf"`{name}(?: = [^`]+)?`", text)] == []


def test_every_metric_of_conditions_has_its_place() -> None:
    from tailback.experiment import run_metrics as them

    text = (ROOT / "docs/ci.md").read_text().split("**Metrics**")[1].split("**Units.**")[0]
    named = {name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", text)}
    experience = {f"experience_{name}" for name in them._EXPERIENCE}
    names = {*them._WHOLE, *them._FLOW, *them._LINK, *them._DELAY, *experience, *them._MEASURES}
    assert names - named == set()
    patterns = {name for name in named - names if "_" in name}
    assert patterns == {"turn_1_answered_mbps", "own_bandwidth_bps_max", "own_mode_is_3", "own_mode_enters_3"}


def test_every_part_has_its_table() -> None:
    from tailback.scenario.parts import schema

    shown = set(re.findall(r"<!-- fields of (\w+) -->", (ROOT / "docs/scenario.md").read_text()))
    # These have a name or a start, and parameters: the text says so.
    assert set(schema()["parts"]) - shown == {"Queue", "Named", "Medium", "Preset", "Period"}


def test_instructions_a_packet_are_those_that_are_kept() -> None:
    made = runpy.run_path(str(ROOT / "scripts/instructions_page"))
    for path in made["PAGES"]:
        text = path.read_text()
        assert made["written"](text) == text, f"{path.name} is old: run scripts/instructions_page"
        assert made["table"]() in text


def test_the_pages_of_commands_and_words_are_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts/commands_page"))
    for path, write in ((made["COMMANDS"], made["commands"]), (made["GLOSSARY"], made["glossary"])):
        assert path.read_text() == write(), f"{path.name} is old: run scripts/commands_page"
    assert made["glossary"]().count("- **") == (ROOT / "explorer/src/glossary.ts").read_text().count("means:") - 1
