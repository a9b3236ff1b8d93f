"""`tailback sweep` and `tailback results`: sweeps, and the stores of their runs."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tailback import examples
from tailback.cli._app import app
from tailback.cli._common import (
    FAILED,
    AsJson,
    BadInput,
    brief,
    emit,
    print_rows,
    say,
)
from tailback.cli.reading import AllowCode, EngineName, Kernel, Set, setting
from tailback.lazy import lazy

with lazy():
    from tailback.experiment import Shard, Store, read_sweep, statistics
    from tailback.experiment import store as kept
    from tailback.experiment import sweep as run_sweep
    from tailback.experiment.statistics import fold
    from tailback.experiment.store import open_store
    from tailback.experiment.store.query import points, settings
    from tailback.verifying import verify

_STORE = Path("results/store")
_StoreFolder = Annotated[Path, typer.Option("--store", help="The store of runs.")]


_TablesAt = Annotated[
    str | None,
    typer.Option(
        "--tables-at",
        metavar="URL",
        help="Keep tables in a bucket, such as s3://BUCKET/PREFIX. A store with a bucket needs the same address.",
    ),
]
_KeyStart = Annotated[str, typer.Argument(metavar="KEY", help="A run's key, or its beginning.")]


class _Keep(StrEnum):
    SUMMARIES = "summaries"
    TABLES = "tables"


@app.command()
def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="GRID", help="A sweep in TOML (docs/sweeps.md), or an example's name.")
    ],
    store: Annotated[
        Path | None,
        typer.Option("--store", help="The folder of runs. [default: results/store, or results/store-3-of-8]"),
    ] = None,
    settings: Set = None,
    shard: Annotated[
        str | None, typer.Option(metavar="N/M", help="Only every M-th run, from the N-th on, into a separate store.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="A Dask cluster: dask://HOST:8786, or dask:///path/to/scheduler.json.")
    ] = None,
    tables_at: _TablesAt = None,
    keep: Annotated[_Keep | None, typer.Option(help="Also store all tables of every run.")] = None,
    most_wall: Annotated[
        float,
        typer.Option("--most-wall", min=0.001, help="Seconds after which a run is cancelled and counts as failed."),
    ] = 3600.0,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    engine: EngineName = None,
    kernel: Kernel = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario at many points, with many seeds. Runs that are in the store already are not repeated.

    A point that is no scenario is refused before the first run. A failed run is recorded and the others continue; the
    exit code is then 1. `--set` of a value that the sweep varies runs only the points with the given value.

    For example:

    - `tailback sweep scenarios/grids/queue-length.toml`

    - `tailback sweep grids/household --set name=cable --store results/cable`

    - `tailback sweep scenarios/grids/queue-length.toml --on dask://cluster:8786 --store results/shared`

    - `tailback sweep scenarios/grids/queue-length.toml --shard 3/8`, and 1/8 to 8/8 on other machines; then
    `tailback results merge results/store results/store-*-of-8`
    """
    wanted = read_sweep(examples.located(file)).with_values(dict(setting(text) for text in settings or ()))
    if shard is not None:
        wanted = replace(wanted, shard=Shard.of_text(shard))
    if store is None:
        part = wanted.shard
        store = _STORE if part is None else _STORE.with_name(f"{_STORE.name}-{part.number}-of-{part.of}")
    if keep is not None:
        wanted = replace(wanted, keep_tables=keep is _Keep.TABLES)
    elif tables_at is not None:
        wanted = replace(wanted, keep_tables=True)
    with warnings.catch_warnings():
        # `FailedRuns`: printed below.
        warnings.filterwarnings("ignore", r"\d+ of \d+ runs failed")
        done = run_sweep(
            wanted,
            store=Store(store, tables_at=tables_at),
            most_wall_s=most_wall,
            on=on,
            workers=workers,
            progress=not as_json,
            allow_code=allow_code,
            engine=engine,
            kernel=kernel,
        )
    if as_json:
        emit(done.to_json())
    else:
        say(
            f"{escape(wanted.name)}: {len(wanted.design)} points, {done.run} runs in {done.wall_s:.1f} s, "
            f"{done.reused} found in the store, {done.failed} failed"
        )
        for text, count in list(done.errors.items())[:5]:
            say(f"  {count} × {escape(text)}")
        where = "" if store == _STORE else f" --store {shlex.quote(str(store))}"
        if done.failed:
            say(f"  the next sweep tries them again; to remove their rows: tailback results gc --failed{escape(where)}")
        if done.still:
            points = f"{len(done.still)} of {len(wanted.design)} points"
            say(
                f"[yellow]warning:[/yellow] at {points} all seeds gave the same run: nothing there is drawn, so seeds "
                'add no cases. Add for example \\[randomness] start_spread = "1s"'
            )
        say(f"store: {escape(str(store))}   ask it with: tailback results query{escape(where)} 'SELECT …'")
    if done.failed:
        raise typer.Exit(FAILED)


results = typer.Typer(no_args_is_help=True, help="Show and manage the stored runs of sweeps.")


app.add_typer(results, name="results")


@results.command("ls")
def results_ls(
    store: _StoreFolder = _STORE,
    limit: Annotated[int, typer.Option(min=1, help="At most this many runs, the newest ones.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest last.

    For example `tailback results ls --store results/store`
    """
    frame = open_store(store).frame()
    keys = ("key", "status", "sweep", "point", "seed", "name", "wall_s", "error")
    rows = [{key: row[key] for key in keys} for row in frame.tail(limit).to_dicts()]
    if as_json:
        emit({"store": store, "runs": len(frame), "shown": rows})
        return
    print_rows([{key: brief(value) for key, value in row.items()} for row in rows])
    say(f"{len(frame)} runs in {escape(str(store))}" + (f", the last {limit} shown" if len(frame) > limit else ""))


@results.command("show")
def results_show(
    key: _KeyStart,
    store: _StoreFolder = _STORE,
    scenario: Annotated[bool, typer.Option("--scenario", help="Print the scenario, as TOML.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run's measurements, or its scenario to run it again.

    For example `tailback results show 3f9a --store results/store --scenario`
    """
    row = open_store(store).find(key)
    if scenario:
        emit({"scenario": row["scenario"]}) if as_json else print(row["scenario"], end="")
    elif as_json:
        emit(row)
    else:
        print_rows([{"name": name, "value": brief(row[name])} for name in row if name != "scenario"])


@results.command("query")
def results_query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="The runs are the table `runs`; without SQL, its columns are listed.")
    ] = "",
    store: _StoreFolder = _STORE,
    intervals: Annotated[
        bool,
        typer.Option("--intervals", help="Fold the answer's rows: median and interval of each measured column."),
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Query the store in SQL; a column with a dot in its name needs double quotes.

    With `--intervals` the columns that hold fractional numbers are measurements; what was swept, and all that is not
    fractional, says which rows belong together. `n` counts the runs that have a measurement. The column `interval`
    says what low and high are: a 95 % interval, or the range of fewer than six runs.

    For example:

    - `tailback results query 'SELECT "flow.bulk.cc", "dumbbell.queue", avg("voip.loss") FROM runs GROUP BY 1, 2'`

    - `tailback results query --intervals 'SELECT "flow.bulk.cc", "dumbbell.queue", "voip.delay_p95_ms" FROM runs'`
    """
    try:
        opened = open_store(store)
        frame = opened.query(sql) if sql else opened.columns()
        if intervals:
            runs = opened.frame()
            frame = fold(frame, settings=settings(runs, sql), points=points(runs))
    except (kept.QueryError, statistics.StatisticsError) as error:
        raise BadInput(str(error)) from None
    if as_json:
        emit({"rows": frame.to_dicts()})
    elif as_csv:
        print(frame.write_csv(), end="")
    else:
        print_rows([{key: brief(value) for key, value in row.items()} for row in frame.to_dicts()])


@results.command("verify")
def results_verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A store, or one result.")] = Path("results/store"),
    tables_at: _TablesAt = None,
    as_json: AsJson = False,
) -> None:
    """Compare every file of a store or a result with its checksum. The exit code is 1 if one is damaged.

    For example `tailback results verify results/seven`
    """
    found = verify(folder, tables_at=tables_at)
    if as_json:
        emit(asdict(found) | {"ok": found.ok})
    else:
        for text in found.damaged:
            say(f"[bold red]damaged:[/bold red] {escape(text)}")
        if found.unchecked:
            say(f"{len(found.unchecked)} files of tailback 0.1 have no checksum; they can be read")
        say(f"{found.files} files with their checksums, {found.bytes / 1e6:.1f} MB; {len(found.damaged)} damaged")
    if not found.ok:
        raise typer.Exit(FAILED)


@results.command("merge")
def results_merge(
    into: Annotated[Path, typer.Argument(metavar="INTO", help="The store to merge into; it may be new.")],
    stores: Annotated[list[Path], typer.Argument(metavar="FROM...", help="The stores to merge; they are not changed.")],
    tables_at: _TablesAt = None,
    as_json: AsJson = False,
) -> None:
    """Merge stores: each run once, its tables verified by their checksums.

    A run with different numbers in two stores ends the merge before anything is written. An interrupted merge can be
    continued.

    For example `tailback results merge results/store results/store-*-of-8`
    """
    others = [open_store(folder) for folder in stores]
    done = Store(into, tables_at=tables_at).merge(*others)
    if as_json:
        emit({"store": into} | asdict(done))
    else:
        say(
            f"{escape(str(into))}: {done.rows} runs taken in, {done.known} there already; "
            f"{done.tables} sets of tables, {done.bytes / 1e6:.1f} MB"
        )


@results.command("gc")
def results_gc(
    store: _StoreFolder = _STORE,
    other_engines: Annotated[
        bool, typer.Option("--other-engines", help="Also remove the runs of other engines.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Also remove failed runs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tidy up a store: one index file, no rows that newer ones replaced, no tables or leftovers without a row.

    For example `tailback results gc --store results/store`
    """
    done = open_store(store).gc(other_engines=other_engines, failed=failed, dry_run=dry_run)
    if as_json:
        emit(asdict(done) | {"dry_run": dry_run})
    else:
        verb = "would remove" if dry_run else "removed"
        what = f"{done.rows} rows, {done.tables} sets of tables, {done.leftovers} leftovers"
        say(f"{verb} {what}: {done.bytes / 1e6:.1f} MB")
        for path in done.left:
            say(f"left alone, as it cannot be proven to be the store's own: {escape(str(path))}")
