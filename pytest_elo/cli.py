"""``pytest-elo``: what can be done with runs outside a pytest session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_elo._text import printable, shorten
from pytest_elo.errors import ConfigError, EloError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of the user are one line on stderr and their exit code."""
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.run is not _doctor:
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    options.pytest_arguments = rest
    try:
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except EloError as error:
        print(printable(f"ERROR: {error}"), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return 0
    except OSError as error:
        if error.filename is None:  # nothing that a user named
            raise
        print(printable(f"ERROR: {shorten(str(error.filename), 200)}: {error.strerror}"), file=sys.stderr)
        return ConfigError.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pytest-elo", description="Elo per token of test-time compute.")
    commands = parser.add_subparsers(required=True, metavar="command")

    report = commands.add_parser("report", help="print a run's table from its files alone and rewrite them")
    report.add_argument("run_dir", type=Path, nargs="?", default=Path(".elo/latest"), metavar="DIR")
    report.add_argument("--png", type=Path, metavar="FILE", help="write the plot of Elo against tokens")
    report.add_argument("--format", choices=("text", "md", "csv", "json", "latex", "html"), default="text")
    _rating_options(report)
    report.set_defaults(run=_report)

    merge = commands.add_parser("merge", help="join shards or runs of the same settings, and judge their gates")
    merge.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    merge.add_argument("--out", type=Path, required=True, metavar="DIR", help="run directory to write")
    merge.add_argument("--gate", action="append", default=[], metavar="EXPR", help="a gate besides the shards' own")
    merge.add_argument("--no-html", action="store_true", help="do not write report.html")
    merge.set_defaults(run=_merge)

    export = commands.add_parser("export", help="write runs.parquet and outcomes.parquet for a warehouse")
    export.add_argument("run_dir", type=Path, nargs="?", default=Path(".elo/latest"), metavar="DIR")
    export.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    export.set_defaults(run=_export)

    runs = commands.add_parser("import-runs", help="make a run directory from call-level and outcome-level CSV")
    runs.add_argument("--calls", type=Path, required=True, metavar="CSV", help="one row a model call (.gz too)")
    runs.add_argument("--outcomes", type=Path, required=True, metavar="CSV", help="one row a graded item (.gz too)")
    runs.add_argument("--mapping", type=Path, required=True, metavar="YAML", help="which rows are which strategy")
    runs.add_argument("run_dir", type=Path, metavar="DIR", help="the run directory to write")
    _rating_options(runs)
    runs.set_defaults(run=_import_runs)

    init = commands.add_parser("init", help="write a small eval suite that runs as generated")
    init.add_argument("folder", type=Path, nargs="?", default=Path("evals"), metavar="DIR", help="default: evals")
    init.set_defaults(run=_init)

    votes = commands.add_parser("import-votes", help="rate policies from vote files, whatever tool wrote them")
    votes.add_argument("files", type=Path, nargs="+", metavar="FILE")
    votes.add_argument("--judge", metavar="NAME", help="who voted, where the file does not say")
    votes.add_argument("--judge-kind", choices=("person", "model"), default="person")
    votes.add_argument("--into", type=Path, metavar="RUN_DIR", help="run directory whose votes.jsonl they join")
    votes.add_argument("--out", type=Path, metavar="DIR", help="folder for leaderboard.csv, .json and .html")
    votes.add_argument("--lmsys", type=Path, metavar="FILE", help="export all votes in the LMSYS format")
    votes.add_argument("--anchor", metavar="NAME", help="policy whose rating is 1000")
    votes.add_argument("--ties", choices=("half", "davidson", "drop"), default="half")
    votes.set_defaults(run=_import_votes)

    vote = commands.add_parser("vote", help="let people vote on a run's pairs in a browser")
    vote.add_argument(
        "directory", type=Path, metavar="DIR", help="a run directory with an arena, or a folder with ballots.jsonl"
    )
    vote.add_argument("--port", type=int, default=8765)
    vote.set_defaults(run=_vote)

    doctor = commands.add_parser(
        "doctor",
        help="check settings, key, address, models, ledger and the files of coding clients; run no item",
        epilog="Takes the paths and options of pytest, such as `pytest-elo doctor evals --elo-model NAME`.",
    )
    doctor.set_defaults(run=_doctor)

    _comparing(commands)

    _programs(commands)
    _reconciling(commands)

    embed = commands.add_parser("embed", help="fetch and check a small local model, for --elo-model embedded")
    embed.add_argument("name", nargs="?", metavar="NAME", help="smollm2, qwen2.5-coder-0.5b or qwen2.5-coder-1.5b")
    embed.add_argument("--model-file", metavar="F", help="use this GGUF file instead")
    embed.set_defaults(run=_embed)
    return parser


def _comparing(commands: Commands) -> None:
    compare = commands.add_parser("compare", help="what changed between two runs, paired on items")
    compare.add_argument("before", metavar="A", help="a run directory, a baseline file or the name of a baseline")
    compare.add_argument("after", metavar="B", nargs="?", default=".elo/latest", help="default: .elo/latest")
    compare.add_argument(
        "--allow", metavar="WHAT", default="", help="conditions that may differ: model,endpoint,seed,grading"
    )
    compare.add_argument("--level", metavar="L", type=float, default=0.95, help="of the intervals (default 0.95)")
    compare.add_argument("--format", choices=("text", "md", "json"), default="text")
    compare.set_defaults(run=_compare)

    baseline = commands.add_parser("baseline", help="stored runs that gates compare with").add_subparsers(
        required=True, metavar="action"
    )
    save = baseline.add_parser("save", help="store a run as a small text file for git")
    save.add_argument("run_dir", type=Path, nargs="?", default=Path(".elo/latest"), metavar="DIR")
    save.add_argument("--name", default="main", help="what gates call it (default main)")
    save.add_argument("--to", type=Path, metavar="FILE", help="default: baselines/<name>.jsonl beside elo.yaml")
    save.set_defaults(run=_save_baseline)


def _programs(commands: Commands) -> None:
    proxy = commands.add_parser(
        "proxy",
        help="meter the model calls of any program: a loopback server that keeps the key and writes the ledger",
        epilog="`pytest-elo proxy -- codex exec '...'` runs one program; without a command it serves until Ctrl-C.",
    )
    proxy.add_argument("--dir", type=Path, metavar="DIR", help="where runs.jsonl goes (default .elo/<run id>)")
    proxy.add_argument("--config", type=Path, metavar="FILE", help="default: elo.yaml or evals/elo.yaml, if there")
    proxy.add_argument("--base-url", default="", metavar="URL", help="the gateway")
    proxy.add_argument("--key-variable", default="", metavar="NAME", help="variable that holds the gateway's key")
    proxy.add_argument("--model", default="", metavar="NAME", help="main model; calls to others are its overhead")
    proxy.add_argument("--port", type=int, default=0, help="default: any free one")
    for name in ("task", "item", "strategy"):
        proxy.add_argument(f"--{name}", default="(proxy)", metavar="NAME", help=f"{name} that is charged")
    proxy.add_argument("command", nargs="*", metavar="-- COMMAND", help="program to run with access to the proxy")
    proxy.set_defaults(run=_proxy)

    clients = commands.add_parser("clients", help="configuration of Claude Code, Codex, Cline and CC Switch")
    clients.add_argument("clients", nargs="*", metavar="CLIENT", help="claude-code, codex, cline or cc-switch")
    clients.add_argument("--name", default="taotoken", help="the provider's name in the files (default taotoken)")
    clients.add_argument("--base-url", default="", metavar="URL", help="default: gateway.base_url of elo.yaml")
    clients.add_argument("--key-variable", default="", metavar="NAME", help="variable that holds the gateway's key")
    clients.add_argument("--model", default="", metavar="NAME", help="default: the model of elo.yaml")
    clients.add_argument("--small-model", default="", metavar="NAME", help="for Claude Code's background calls")
    clients.add_argument("--write", action="store_true", help="write the files, each after asking, with a copy kept")
    clients.add_argument("--yes", action="store_true", help="agree to every change")
    clients.set_defaults(run=_clients)


def _reconciling(commands: Commands) -> None:
    reconcile = commands.add_parser("reconcile", help="compare the ledger with what the provider billed")
    reconcile.add_argument("run_dirs", type=Path, nargs="*", default=[Path(".elo/latest")], metavar="DIR")
    reconcile.add_argument("--billed", required=True, metavar="N|CSV", help="tokens, or the provider's usage export")
    reconcile.add_argument("--tolerance", type=float, default=0.03, metavar="T", help="share that may differ (0.03)")
    reconcile.set_defaults(run=_reconcile)


def _rating_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--anchor", metavar="NAME", help="strategy that all tasks are aligned on")
    parser.add_argument("--ties", choices=("half", "davidson", "drop"))
    parser.add_argument("--route", choices=("anchored", "pooled", "hierarchical"))
    parser.add_argument("--interval", choices=("cr1", "percentile", "bca"))
    parser.add_argument("--missing-anchor", choices=("error", "drop"))
    parser.add_argument("--online-k", type=float, nargs="?", const=32.0, metavar="K", help="show online Elo too (32)")
    parser.add_argument("--seed", type=int)


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    names = ("anchor", "ties", "route", "interval", "missing_anchor", "online_k", "seed")
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _report(options: argparse.Namespace) -> int:
    from pytest_elo.report.build import build
    from pytest_elo.report.files import write_files
    from pytest_elo.report.formats import render

    report = build(options.run_dir, _overrides(options))
    write_files(report, options.run_dir)
    if getattr(options, "png", None):
        from pytest_elo.report.plots.draw import write_png

        write_png(report, options.png)
    print(render(report, getattr(options, "format", "text")), end="")
    return 0


def _merge(options: argparse.Namespace) -> int:
    from pytest_elo.report.merging import merge_runs

    return merge_runs(options.directories, options.out, gates=options.gate, with_page=not options.no_html)


def _export(options: argparse.Namespace) -> int:
    from pytest_elo.report.export import export

    for path, rows in export(options.run_dir, options.out):
        print(f"{path}: {rows:,} rows")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from pytest_elo.report.commands import compare_runs

    allowed = tuple(name.strip() for name in options.allow.split(",") if name.strip())
    print(
        compare_runs(options.before, options.after, allowed=allowed, level=options.level, form=options.format), end=""
    )
    return 0


def _save_baseline(options: argparse.Namespace) -> int:
    from pytest_elo.report.commands import save_baseline

    path, snapshot = save_baseline(options.run_dir, options.name, options.to)
    items = len({key[:2] for key in snapshot.cells})
    print(f"{path}: {items} items under {', '.join(snapshot.strategies)}; commit it, gates call it {options.name!r}")
    return 0


def _import_runs(options: argparse.Namespace) -> int:
    from pytest_elo.ledger.import_runs import import_runs

    mapped = import_runs(options.calls, options.outcomes, options.mapping, options.run_dir)
    print(f"imported {len(mapped.attempts)} calls and {len(mapped.outcomes)} outcomes into {options.run_dir}")
    return _report(options)


def _init(options: argparse.Namespace) -> int:
    from pytest_elo.starter import init

    print("\n".join(init(options.folder)))
    return 0


def _import_votes(options: argparse.Namespace) -> int:
    from pytest_elo.votes.commands import import_command

    return import_command(
        options.files,
        judge=options.judge,
        judge_kind=options.judge_kind,
        into=options.into,
        out=options.out,
        lmsys=options.lmsys,
        anchor=options.anchor,
        ties=options.ties,
    )


def _vote(options: argparse.Namespace) -> int:
    from pytest_elo.votes.commands import vote_command

    return vote_command(options.directory, port=options.port)


def _doctor(options: argparse.Namespace) -> int:
    import pytest  # pytest reads its options and ini files: the doctor sees what a run would see

    return int(pytest.main(["--elo-doctor", *options.pytest_arguments]))


def _proxy(options: argparse.Namespace) -> int:
    from pytest_elo.session.proxy_command import ProxyOptions, run_proxy

    return run_proxy(
        ProxyOptions(
            directory=options.dir,
            config=options.config,
            base_url=options.base_url,
            key_variable=options.key_variable,
            model=options.model,
            port=options.port,
            task=options.task,
            item=options.item,
            strategy=options.strategy,
            command=options.command,
        )
    )


def _clients(options: argparse.Namespace) -> int:
    from pytest_elo.session.clients_command import clients_command

    return clients_command(
        options.clients,
        name=options.name,
        base_url=options.base_url,
        key_variable=options.key_variable,
        model=options.model,
        small_model=options.small_model,
        write=options.write,
        yes=options.yes,
    )


def _reconcile(options: argparse.Namespace) -> int:
    from pytest_elo.report.reconcile import reconcile, render

    result = reconcile(options.run_dirs, options.billed, options.tolerance)
    print(render(result), end="")
    return 0 if result.is_met else 1


def _embed(options: argparse.Namespace) -> int:
    from pytest_elo.gateway.embed_command import embed

    return embed(options.name, model_file=options.model_file)
