"""The command line of `planner`. Exit codes: 0 a plan, 3 the input is right and no plan exists, 2 bad input, 1 a fault of ours."""

from __future__ import annotations

import argparse
import json
import os
import sys

from planner import __version__
from planner.errors import Infeasible, InputError, InputErrors, shown

OK, OURS, BAD_INPUT, NO_PLAN = 0, 1, 2, 3


def _say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def _write_json(path: str, document: dict) -> None:
    from planner.report.whole import whole_file

    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with whole_file(path, "--json") as stage:
        stage.write_text(text, encoding="utf-8")


def _scenarios(paths: list[str]):
    from planner import scenario

    loaded = [(path, scenario.load(path)) for path in paths]
    names: dict[str, str] = {}
    for path, item in loaded:
        if item.name in names:
            raise InputError("name", item.name, f"must differ between scenarios (also in {names[item.name]})", path)
        names[item.name] = path
    return [item for _, item in loaded]


def _report(args) -> int:
    from planner.report.write import write

    code = OK
    for item in _scenarios(args.scenario):
        done = write(item, args.output, force=args.force, language=args.lang)
        _say(f"{'reused, nothing changed' if done.reused else 'written'}: {done.path}/report.html ({done.status})")
        code = max(code, NO_PLAN if done.status != "ok" else OK)
    return code


def _plan(args) -> int:
    from planner.decide import decide
    from planner.plan.text import lines
    from planner.report.whole import spare

    scenarios = _scenarios(args.scenario)
    if args.json is not None and len(scenarios) > 1:
        raise InputError("--json", args.json, "takes one scenario at a time")
    if args.json is not None:
        spare(args.json, [*args.scenario, *(file for item in scenarios for file in item.files)], "--json")
    code = OK
    for item in scenarios:
        answer = decide(item)
        if args.json is not None:
            _write_json(args.json, answer.as_dict())
        for line in lines(answer):
            _say(line)
        code = max(code, NO_PLAN if answer.status != "ok" else OK)
    return code


def _check(args) -> int:
    from planner.questions import all_questions, check
    from planner.report.whole import spare

    if args.questions:
        for question in all_questions().values():
            _say(f"{question.name} [{question.unit}] {question.summary} ({question.calls})")
            for name, item in question.inputs.items():
                need = "required" if item.required else f"default {item.default}" if item.default is not None else "optional"
                _say(f"    {name}{f' [{item.unit}]' if item.unit else ''}: {item.meaning}; {need}")
        return OK
    if not args.file:
        raise InputError("FILE", None, "is required (or --questions)")
    cases = check.read(args.file)
    if args.json is not None:
        spare(args.json, [args.file, *(text for case in cases for text in check.texts(case.inputs))], "--json")
    outcomes = [check.run(case) for case in cases]
    if args.json is not None:
        _write_json(args.json, check.as_json(outcomes))
    for o in outcomes:
        parts = [f"{o.status:7} {o.case} {o.question}: expected {o.expected}"]
        parts += [f"got {o.got:.6g} {o.unit}"] if o.got is not None else [o.reason]
        parts += [f"error {o.error_fraction:+.2%}"] if o.error_fraction is not None else []
        parts += [f"[{o.low:.6g}, {o.high:.6g}]"] if o.low is not None else []
        parts += [{True: "inside", False: "outside", None: ""}[o.inside], o.how, o.grade, o.limit]
        _say(" ".join(part for part in parts if part))
    for row in check.summary(outcomes):
        share = {k: "-" if row[k] is None else f"{row[k]:.1%}" for k in ("median_abs_error", "p90_abs_error", "bias", "coverage")}
        _say(f"{row['question']}: {row['cases']} cases, {row['ok']} ok, {row['refused']} refused; median error "
             f"{share['median_abs_error']}, p90 {share['p90_abs_error']}, bias {share['bias']}, coverage {share['coverage']}")
    return OK if all(o.status == "ok" for o in outcomes) else OURS


def _facts(args) -> int:
    from planner.facts.show import lines

    if not any(word.strip() for word in args.words):
        raise InputError("WORDS", " ".join(args.words), 'must name something, for example "vr-nvl72 hbm"')
    found = list(lines(" ".join(args.words)))
    for line in found:
        _say(line)
    if not found:
        sys.stderr.write(f"nothing is known about {shown(' '.join(args.words))}: try a system, a quantity or the id of a claim\n")
    return OK if found else NO_PLAN


def _batch(args) -> int:
    from planner.batch import bar, run

    records = run(args.source, args.output, workers=args.workers, scheduler=args.scheduler, plan_only=args.plan_only, progress=bar)
    counts = {status: sum(r.status == status for r in records) for status in ("ok", "infeasible", "failed")}
    _say(f"{len(records)} scenarios: {counts['ok']} ok ({sum(r.reused for r in records)} reports reused), {counts['infeasible']} "
         f"infeasible, {counts['failed']} failed; {args.output}/index.html, batch.csv, failures.csv")
    return OK if counts["ok"] == len(records) else NO_PLAN if not counts["failed"] else OURS


def _fabric(args) -> int:
    from planner.facts.catalog import system
    from planner.plan.answer import exact
    from planner.plan.fabric import choose, fabric_answers
    from planner.plan.text import line
    from planner.scenario import parse_fabric

    rack = system(args.system, args.profile)
    given = parse_fabric({"nics_per_gpu": args.nics, "lanes": args.lanes, "planes": args.planes, "tiers": args.tiers, "rails": args.rails,
                          "rails_per_gpu": args.rails_per_gpu, "switch": args.switch, "oversubscription": args.oversubscription,
                          "spare_ports": args.spare_ports, "grow_to_gpus": args.grow_to})
    if args.nics is not None and given.lanes and args.nics * int(given.lanes.split("x")[0]) != choose(rack, 1, given).made.ports_per_gpu:
        raise InputError("--nics", args.nics, f"must fit the lanes {given.lanes} and the {rack.nics_per_gpu} NICs of {rack.label}")
    gpus = args.gpus if args.gpus is not None else args.racks * rack.gpus
    if args.grow_to is not None and args.grow_to < gpus:
        raise InputError("--grow-to", args.grow_to, f"must be at least the {gpus:,} GPUs of day one")
    if args.wiring is not None:
        from planner.report.wiring import check_place

        check_place(args.wiring)
    answers, parts = fabric_answers(rack, gpus, given, 0)
    racks = -(-gpus // rack.gpus)
    unused = f", {racks * rack.gpus - gpus} of their GPUs without a link" if gpus % rack.gpus else ""
    _say(f"{gpus:,} GPUs of {rack.label}: {racks:,} rack{'s' * (racks > 1)} of {rack.gpus}{unused}")
    for item in answers.values():
        _say(line(item))
    half = choose(rack, gpus, given).made.bisection_bytes_per_s
    _say(line(exact("fabric_bisection", half / 1e12, "TB/s", basis="one direction between two halves of each rail's GPUs, all rails")))
    for part, watts in parts.items():
        _say(f"    {part:26} {watts / 1e3:,.4g} kW")
    from planner.plan.cabling import cables

    for kind in cables(choose(rack, gpus, given), rack):
        _say(f"    {kind['layer']:10} {kind['media']:18} {kind['cables']:>12,} cables, {kind['shortest_m']:.0f} to {kind['longest_m']:.0f} m "
             "in an assumed hall" + (f"; {kind['too_long']:,} past the longest reach offered" if kind["too_long"] else ""))
    if args.wiring is not None:
        from planner.report.wiring import write_wiring

        _say(f"{write_wiring(choose(rack, gpus, given), rack, args.wiring):,} cables written to {args.wiring}")
    return OK


def _calibrate(args) -> int:
    from planner.calibration import collectives, grades, power, residency, table
    from planner.calibration.serving import constants as serving

    if args.own is not None:
        return _own_runs(args.own)
    areas = {"residency": residency.fit, "collectives": collectives.fit, "power": power.fit, "grades": grades.fit, "serving": serving.fit}
    for area, fit in areas.items():
        rows = fit()
        table.write(area, rows)
        for row in rows:
            _say(f"{area} {row.name} {row.scope} {row.value:.6g} [{row.low:.6g}, {row.high:.6g}] {row.unit}, {row.rows} rows; {row.note}".strip())
    return OK


def _own_runs(path: str) -> int:
    from planner.questions.own_runs import learn

    found, unused = learn(path)
    for one in found:
        _say(f"{one.system}, {one.model}: {one.rows} rows, median error {one.error_before:.1%} as shipped, {one.error_after:.1%} with:")
        _say(f"    {one.line}")
    for text in unused:
        _say(f"not used: {text}")
    _say("put the lines under [facts] of a scenario: the plan then rests on your runs and says so; data/calibration is not changed")
    return OK


def _schema(args) -> int:
    from planner.scenario import schema

    _say(json.dumps(schema(), indent=1))
    return OK


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10000000, got {text[:20]}")
    return int(text)


def _workers(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"must be 1 to 1024, got {text[:20]}")
    return int(text)


class _Parser(argparse.ArgumentParser):
    """Says one line a fault, as the rest of the planner does, instead of the whole usage."""

    def error(self, message: str):
        """Print the fault and end with the exit code of bad input."""
        sys.stderr.write(f"{message} (see {self.prog} --help)\n")
        raise SystemExit(BAD_INPUT)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; each sets `run`, a function of the parsed arguments that returns the exit code."""
    top = _Parser(prog="planner", description="Capacity planning for rack-scale AI clusters.",
                                  epilog="Exit codes: 0 a plan; 3 the input is right and no plan exists; 2 bad input; 1 a fault of ours.")
    top.add_argument("--version", action="version", version=f"planner {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    report = commands.add_parser("report", help="write the report of a scenario: HTML, XLSX, JSON, notebook")
    report.add_argument("scenario", nargs="+", help="scenario file (TOML)")
    report.add_argument("-o", "--output", default="reports", help="folder for the report's folder (default: reports)")
    report.add_argument("--force", action="store_true", help="replace the files of a report whose content differs, and no others")
    report.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the report")
    report.set_defaults(run=_report)

    plan = commands.add_parser("plan", help="print the plan of a scenario")
    plan.add_argument("scenario", nargs="+", help="scenario file (TOML)")
    plan.add_argument("--json", metavar="PATH", help="also write the plan as JSON")
    plan.set_defaults(run=_plan)

    check = commands.add_parser("check", help="hold the planner against a table of measured or published values")
    check.add_argument("file", nargs="?", help="CSV with case, question, inputs, expected, unit, rtol")
    check.add_argument("--json", metavar="PATH", help="also write the outcomes as JSON")
    check.add_argument("--questions", action="store_true", help="list every question with its inputs and units")
    check.set_defaults(run=_check)

    facts = commands.add_parser("facts", help="print what is known about something, conflicts included")
    facts.add_argument("words", nargs="+", help='for example "vr-nvl72 hbm"')
    facts.set_defaults(run=_facts)

    batch = commands.add_parser("batch", help="reports of a folder of scenarios or of a grid")
    batch.add_argument("source", help="folder of scenarios, or a grid file (base and [grid])")
    batch.add_argument("-o", "--output", default="reports", help="folder for the reports, the index and the tables (default: reports)")
    batch.add_argument("--workers", type=_workers, help="local processes (default: one a core)")
    batch.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler to run on instead, such as tcp://127.0.0.1:8786")
    batch.add_argument("--plan-only", action="store_true", help="no reports, only the table of plans")
    batch.set_defaults(run=_batch)

    fabric = commands.add_parser("fabric", help="switches, links, power, cost and growth of a fabric; the wiring plan as a file")
    size = fabric.add_mutually_exclusive_group(required=True)
    size.add_argument("--racks", type=_count, help="racks of the system")
    size.add_argument("--gpus", type=_count, help="GPUs, instead of racks")
    fabric.add_argument("--system", default="vr-nvl72", help="catalogue name (default: vr-nvl72)")
    fabric.add_argument("--profile", help="where a system has two (vr-nvl72: upto or maxlps)")
    fabric.add_argument("--nics", type=_count, help="NICs per GPU (default: the catalogue's)")
    fabric.add_argument("--lanes", help="how a NIC is split, such as 4x200G (default: not)")
    fabric.add_argument("--planes", type=_count, help="planes (default: 1)")
    fabric.add_argument("--tiers", type=_count, help="tiers 1 to 3 (default: the fewest)")
    fabric.add_argument("--rails", type=_count, help="rails (default: the tray's GPUs)")
    fabric.add_argument("--rails-per-gpu", type=_count, help="rails that one GPU has NICs in (default: 1)")
    fabric.add_argument("--switch", help="catalogue name (default: 51.2 or 102.4 Tb/s by the system's age)")
    fabric.add_argument("--oversubscription", type=float, help="leaf down over up bandwidth (default: 1, non-blocking)")
    fabric.add_argument("--spare-ports", type=int, help="ports left dark on every leaf (default: 0)")
    fabric.add_argument("--grow-to", type=_count, metavar="GPUS", help="lay out spines and cores for this many GPUs")
    fabric.add_argument("--wiring", metavar="PATH", help="write every cable to a .parquet or .csv file")
    fabric.set_defaults(run=_fabric)

    calibrate = commands.add_parser("calibrate", help="fit the efficiency constants again and write data/calibration")
    calibrate.add_argument("--with", dest="own", metavar="RUNS.csv", help="learn from your own serving runs instead: prints lines for a scenario")
    calibrate.set_defaults(run=_calibrate)
    commands.add_parser("schema", help="print the JSON Schema of the scenario file").set_defaults(run=_schema)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns the exit code; prints one line per fault on standard error, never a traceback of the user's input."""
    try:
        args = parser().parse_args(argv)
        return args.run(args)
    except (InputErrors, InputError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except Infeasible as error:
        sys.stderr.write(f"no plan: {error}\n")
        return NO_PLAN
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        sys.stderr.write("interrupted, nothing half written\n")
        return 130
    except Exception as error:  # the last line of defence: a fault of ours, said in one line
        if os.environ.get("PLANNER_DEBUG"):
            raise
        said = (str(error).strip().splitlines() or [""])[-1]
        sys.stderr.write(f"planner failed: {type(error).__name__}: {said} (PLANNER_DEBUG=1 shows where)\n")
        return OURS


if __name__ == "__main__":
    sys.exit(main())
