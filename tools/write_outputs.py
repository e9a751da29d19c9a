"""Write the headline tables of outputs/ at 6 significant digits; `--check` compares with what is stored, at 1e-5."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def plan_rows() -> list[dict]:
    """Return every answer of every scenario that ships with the planner."""
    from planner import scenario
    from planner.facts.files import folder
    from planner.plan import plan

    rows = []
    for path in sorted(folder("scenarios").glob("*.toml")):
        for option in plan(scenario.load(path)).options:
            for item in option.answers.values():
                rows.append(
                    {
                        "scenario": path.stem,
                        "workload": option.workload,
                        "system": option.system,
                        "status": option.status,
                        "answer": item.name,
                        "value": item.value,
                        "low": item.low,
                        "high": item.high,
                        "unit": item.unit,
                        "how": item.how,
                        "grade": item.grade,
                    }
                )
    return rows


def residency_rows() -> list[dict]:
    """Return parameters, active parameters, checkpoint bytes and cache bytes a token of every model of the catalogue, or why it is refused."""
    from planner.errors import InputError
    from planner.facts import modelcards
    from planner.facts.formats import weight_formats
    from planner.models import transformer

    rows = []
    for name in modelcards.catalogue():
        try:
            shape = modelcards.load(name)
            rows.append(
                {
                    "model": name,
                    "parameters": sum(transformer.parameters(shape).values()),
                    "active": transformer.active_parameters(shape),
                    "checkpoint_bytes": sum(transformer.checkpoint_bytes(shape, weight_formats(shape, None)).values()),
                    "kv_bytes_per_token_fp8": transformer.kv_bytes(shape.attention, 131072, 1, 8) / 131072,
                    "note": "; ".join(shape.notes),
                }
            )
        except InputError as error:
            rows.append(
                {
                    "model": name,
                    "parameters": None,
                    "active": None,
                    "checkpoint_bytes": None,
                    "kv_bytes_per_token_fp8": None,
                    "note": f"refused: {error.allowed}",
                }
            )
    return rows


def fabric_rows() -> list[dict]:
    """Return every published design at the sizes its tables print: the counts of the rule, and the largest loss of one failure of each kind."""
    from planner.calibration.fabric import named, rules
    from planner.errors import Infeasible, InputError
    from planner.facts.files import table
    from planner.models.fabric.failures import remaining
    from planner.models.fabric.rules import rule_counts, rule_design

    sizes = [(named(r["architecture"], r["table"])[0], int(r["su"])) for r in table("superpod_tables.csv")]
    sizes += [(rule, rule.default_units) for rule in rules() if rule.default_units]
    rows = []
    for rule, units in sizes:
        counts = rule_counts(rule, units)
        names = ("nodes", "gpus", "leaf", "spine", "core", "switches", "links_host", "links_leaf_spine", "links_spine_core")
        row = {"design": rule.design, "table": rule.table, "units": units, **{n: counts.get(n) for n in names}}
        for kind in ("link", "spine", "leaf", "plane"):
            try:
                row[f"left_after_one_{kind}"] = remaining(rule_design(rule, units), {kind: 1}).gpu_even
            except (Infeasible, InputError):
                row[f"left_after_one_{kind}"] = None
        rows.append(row)
    return rows


def goodput_rows() -> list[dict]:
    """Return goodput of every published population at 72 to 131,072 GPUs: exact parts and the first-order formula."""
    from planner.views.training_and_goodput import goodput_rows as rows

    return rows()


def break_even_rows() -> list[dict]:
    """Return the price at which Vera Rubin costs as much a token as GB300: every kind, model, scenario and basis."""
    from planner.sensitivity import pricing

    return pricing.rows()


def training_error_rows() -> list[dict]:
    """Return what was aimed at and reached of training steps and reinforcement learning, misses included."""
    from planner.views.training_and_goodput import error_rows as rows

    return rows()


TABLES = {"plan.csv": plan_rows, "residency.csv": residency_rows, "fabric.csv": fabric_rows, "goodput.csv": goodput_rows,
          "training_errors.csv": training_error_rows,
          "break_even.csv": break_even_rows}


def text(rows: list[dict]) -> str:
    """Return rows as CSV text, numbers at 6 significant digits."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: "" if v is None else f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    return out.getvalue()


def differences(old: str, new: str, tolerance: float = 1e-5) -> list[str]:
    """Return the cells that differ: numbers by more than the relative tolerance, text at all."""
    before, after = list(csv.reader(io.StringIO(old))), list(csv.reader(io.StringIO(new)))
    found = [] if len(before) == len(after) else [f"{len(before)} rows stored, {len(after)} made"]
    for line, (a, b) in enumerate(zip(before, after, strict=False), 1):
        for x, y in zip(a, b, strict=False):
            try:
                same = math.isclose(float(x), float(y), rel_tol=tolerance)
            except ValueError:
                same = x == y
            if not same:
                found.append(f"line {line}: {x} stored, {y} made")
    return found


OPENS, CLOSES = "<!-- numbers of outputs/, written by make outputs -->\n", "<!-- end of numbers -->"


def readme_block() -> str:
    """Return the README's numbers, from the stored tables: racks and power of the main scenario, and the error of throughput."""

    def stored(name: str) -> list[dict]:
        return list(csv.DictReader(io.StringIO((ROOT / "outputs" / name).read_text(encoding="utf-8"))))

    def span(row: dict, digits: str) -> str:
        number = {key: f"{float(row[key]):{digits}}" if row[key] else "not available" for key in ("value", "low", "high")}
        return f"{number['value']} ({number['low']} to {number['high']})"

    main_plan = [r for r in stored("plan.csv") if r["scenario"] == "rubin-vs-gb300"]
    lines = ["| system | racks (80 % of draws) | facility MW | how, grade |", "|---|---|---|---|"]
    for system in dict.fromkeys(r["system"] for r in main_plan):
        rows = {r["answer"]: r for r in main_plan if r["system"] == system}
        if "racks_total" in rows:
            racks, power = rows["racks_total"], rows["facility_power"]
            lines.append(f"| {system} | {span(racks, ',.0f')} | {span(power, ',.2g')} | {racks['how']}, {racks['grade']} |")
        else:
            lines.append(f"| {system} | no plan | | |")
    left_out = next(r for r in stored("serving_errors.csv") if "left out" in r["what"] and r["group"] == "all")
    error = {key: f"{float(left_out[key]):.0%}".replace("%", " %") for key in ("median", "mean", "p90")}
    lines += ["", f"Throughput behind them, held against {left_out['rows']} published results with each system left out in turn: median error "
              f"{error['median']}, mean {error['mean']}, 90 % within {error['p90']} (`outputs/serving_errors.csv`)."]
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Write the tables and the README's numbers, or with --check compare the tables. Returns 1 when a stored table differs."""
    code = 0
    for name, make in TABLES.items():
        place, made = ROOT / "outputs" / name, text(make())
        if "--check" in words:
            faults = differences(place.read_text(encoding="utf-8"), made)
            for fault in faults[:20]:
                sys.stdout.write(f"outputs/{name}: {fault}\n")
            code = 1 if faults else code
        else:
            place.write_text(made, encoding="utf-8")
            sys.stdout.write(f"outputs/{name} written\n")
    if "--check" not in words:
        page = ROOT / "README.md"
        before, rest = page.read_text(encoding="utf-8").split(OPENS)
        page.write_text(before + OPENS + readme_block() + CLOSES + rest.split(CLOSES, 1)[1], encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
