"""Many scenarios: a folder or a grid becomes reports on local processes or a Dask cluster; a killed run goes on where it was."""

from __future__ import annotations

import copy
import csv
import fcntl
import html
import io
import itertools
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path

from planner.errors import Infeasible, InputError, InputErrors
from planner.facts.files import folder, regular
from planner.plan.types import Plan
from planner.report.whole import spare, whole_file
from planner.scenario import Scenario, load, parse

TABLES = ("batch.csv", "failures.csv", "index.html")
MAX_POINTS = 100_000
ANSWER_SECONDS = 20
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)((?:\[\d+\])*)")


@dataclass(frozen=True)
class Record:
    """What became of one scenario of a batch. status: ok, infeasible or failed; path, the report's folder below the output."""

    name: str
    digest: str
    status: str
    path: str = ""
    reused: bool = False
    reason: str = ""
    racks: str = ""
    facility_mw: str = ""
    usd_per_mtok_output: str = ""


def _steps(key: str) -> list:
    """Split `workloads[0].slo.tpot_s` into ["workloads", 0, "slo", "tpot_s"]; a quoted name with dots is kept whole by TOML users."""
    steps: list = []
    for part in key.split("."):
        found = _KEY.fullmatch(part)
        if not found:
            raise InputError(f"grid.{key}", key, "must be a dotted key such as workloads[0].requests_per_s")
        steps += [found[1], *(int(n) for n in re.findall(r"\d+", found[2]))]
    return steps


def _set(content: dict, key: str, value) -> None:
    steps, place = _steps(key), content
    for step, after in itertools.pairwise(steps):
        if isinstance(place, dict) and isinstance(step, str):
            place = place.setdefault(step, [] if isinstance(after, int) else {})
        elif isinstance(place, list) and isinstance(step, int) and step < len(place):
            place = place[step]
        else:
            raise InputError(f"grid.{key}", step, "must be a place that exists in the base scenario")
    last = steps[-1]
    in_table = isinstance(place, dict) and isinstance(last, str)
    in_list = isinstance(place, list) and isinstance(last, int) and last < len(place)
    if not in_table and not in_list:
        raise InputError(f"grid.{key}", last, "must be a place that exists in the base scenario")
    place[last] = value


def expand(path: str | Path) -> Iterator[tuple[str, Scenario | str]]:
    """Yield (name, Scenario) for each scenario of a folder or of a grid file; (name, reason) for one that is refused.

    Parameters: path, a folder of *.toml scenarios, or a grid: a TOML file with `base` (a scenario file beside it, or one that
    ships with the planner) and a table `[grid]` of dotted key -> list of values; every combination becomes a scenario.
    Raises: InputErrors for a grid that cannot be read; InputError for an empty folder or more than `MAX_POINTS` points.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.toml"))
        if not files:
            raise InputError("folder", str(path), "must hold *.toml scenarios")
        for file in files:
            try:
                yield file.stem, load(file)
            except InputErrors as error:
                yield file.stem, str(error)
        return
    content = _grid_file(path)
    points = [len(v) for v in content["grid"].values()]
    total = 1
    for n in points:
        total *= n
    if total > MAX_POINTS:
        raise InputError("grid", total, f"must have at most {MAX_POINTS} combinations")
    base, place = _base(path, content["base"])
    for values in itertools.product(*content["grid"].values()):
        one = copy.deepcopy(base)
        label = ", ".join(f"{k.rsplit('.', 1)[-1]} {v}" for k, v in zip(content["grid"], values, strict=True))
        name = f"{one.get('name', path.stem)} · {label}"[:200]
        try:
            for key, value in zip(content["grid"], values, strict=True):
                _set(one, key, value)
            one["name"] = name.replace("..", "…")
            yield name, parse(one, path.name, place)
        except (InputError, InputErrors) as error:
            yield name, str(error)


def _grid_file(path: Path) -> dict:
    try:
        size = path.stat().st_size
        if not regular(path):
            raise InputError("file", str(path), "must be a regular file or a folder", path.name)
        if size > 1_000_000:
            raise InputError("file", size, "must be at most 1000000 bytes", path.name)
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except InputError as error:
        raise InputErrors([error]) from None
    except OSError as error:
        raise InputErrors([InputError("file", error.strerror, "must be a readable grid or a folder", str(path))]) from None
    except (ValueError, RecursionError) as error:
        raise InputErrors([InputError("TOML", str(error) or "deep brackets", "must be readable", path.name)]) from None
    unknown = [k for k in content if k not in ("base", "grid")]
    faults = [InputError(k, content[k], "is not a key of a grid file (base, grid)", path.name) for k in unknown]
    if not isinstance(content.get("base"), str):
        faults.append(InputError("base", content.get("base"), "must name a scenario", path.name))
    grid = content.get("grid")
    if not isinstance(grid, dict) or not grid:
        faults.append(InputError("grid", grid, "must be a table of key -> list of values", path.name))
    else:
        faults += [InputError(f"grid.{k}", v, "must be a list of at least one value (quote dotted keys)", path.name)
                   for k, v in grid.items() if not isinstance(v, list) or not v]
    if faults:
        raise InputErrors(faults)
    return content


def _base(path: Path, name: str) -> tuple[dict, Path]:
    """Return the content of a grid's base, and the folder in which the files it names lie: its own, or the grid's where it ships with the planner."""
    shipped = folder("scenarios") / f"{name}.toml"
    beside, place = path.parent / name, (path.parent / name).parent.absolute()
    if re.fullmatch(r"[A-Za-z0-9_-]+", name) and regular(shipped):
        beside, place = shipped, path.parent.absolute()
    if ".." in Path(name).parts or not regular(beside):
        allowed = "must be a scenario beside the grid file or one that ships with the planner"
        raise InputErrors([InputError("base", name, allowed, path.name)])
    load(beside)  # the base must be right by itself
    return tomllib.loads(beside.read_text(encoding="utf-8-sig")), place


def _numbers(answer: Plan) -> dict[str, float]:
    """Return racks, power and cost of the best system of each workload, summed over the workloads; none where one of them is not served."""
    best = [answer.fewest_racks(w) for w in answer.workloads]
    if not best or None in best:
        return {}
    found = {"racks": sum(o.value("racks_total") for o in best), "facility_mw": sum(o.value("facility_power") for o in best)}
    hourly = [o.value("usd_per_h") for o in best]
    if None not in hourly:
        found["usd_per_mtok_output"] = sum(hourly) / sum(h / o.value("usd_per_mtok_output") for h, o in zip(hourly, best, strict=True))
    return found


def _one(name: str, scenario: Scenario, out: str, plan_only: bool) -> Record:
    """Make one report, or one plan; every outcome is a record, so that one failure never stops the rest."""
    try:
        if plan_only:
            from planner.plan import plan

            answer, place, reused = plan(scenario), "", False
        else:
            from planner.report.write import write
            from planner.views.decision import load as load_plan

            done = write(scenario, out)
            answer, place, reused = load_plan(str(done.path / "plan.json")), done.path.name, done.reused
        numbers = {k: f"{v:.6g}" for k, v in _numbers(answer).items()}
        limits = [answer.limit, *(o.limit for o in answer.options)]
        reason = "" if answer.status == "ok" else "; ".join(dict.fromkeys(text for text in limits if text))
        return Record(name, scenario.digest, answer.status, place, reused, reason, **numbers)
    except (InputError, InputErrors, Infeasible) as error:
        return Record(name, scenario.digest, "failed", reason=str(error))
    except Exception as error:  # a fault of ours in one scenario is its record, not the end of the batch
        return Record(name, scenario.digest, "failed", reason=f"{type(error).__name__}: {error}")


def _local(tasks: list[tuple], workers: int) -> Iterator[Record]:
    """Run tasks on processes; a worker that dies is replaced, and a task that was running twice when one died is failed."""
    left, deaths = dict(enumerate(tasks)), dict.fromkeys(range(len(tasks)), 0)
    while left:
        suspects = [k for k in left if deaths[k]]
        width = 1 if suspects else workers  # after a death the suspects run alone, so that only the guilty one is failed
        batch = suspects[:1] if suspects else list(left)
        with ProcessPoolExecutor(width, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_one, *left[k]): k for k in batch}
            for future in as_completed(futures):
                key = futures[future]
                try:
                    record = future.result()
                except BrokenProcessPool:
                    deaths[key] += 1
                    if deaths[key] < 3:
                        continue
                    record = Record(left[key][0], left[key][1].digest, "failed", reason="its worker process died three times")
                left.pop(key)
                yield record


def _dask(tasks: list[tuple], address: str) -> Iterator[Record]:
    from dask.distributed import Client
    from dask.distributed import as_completed as dask_completed

    try:
        client = Client(address, timeout=f"{ANSWER_SECONDS}s")
    except (OSError, ValueError, TypeError) as error:  # what distributed raises for an address that means nothing or does not answer
        raise InputError("--scheduler", address, f"must be the address of a Dask scheduler that answers ({type(error).__name__})") from None
    try:
        with client:
            futures = {client.submit(_one, *t, pure=False, retries=2): t for t in tasks}
            for future in dask_completed(futures):
                name, scenario = futures[future][:2]
                fault = future.exception()
                failed = None if fault is None else f"{type(fault).__name__}: {fault}"
                yield future.result() if fault is None else Record(name, scenario.digest, "failed", reason=failed)
    except OSError as error:
        raise InputError("--scheduler", address, f"must stay reachable ({type(error).__name__})") from None


@contextmanager
def _alone(out: Path):
    """Hold the folder's lock: a second batch in the same folder is refused, not mixed in."""
    with (out / ".batch.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("output folder", str(out), "must not be in use by another batch") from None
        yield


def run(source: str | Path, out: str | Path = "reports", *, workers: int | None = None, scheduler: str | None = None,
        plan_only: bool = False, progress: Callable[[Iterable, int], Iterable] | None = None) -> list[Record]:
    """Run a batch and write its tables and index page beside the reports.

    Parameters: source, a folder or a grid file (see `expand`); out, the folder; workers, local processes (default: one a
    core); scheduler, the address of a Dask scheduler instead; plan_only, no reports; progress(iterable, total), for a bar.
    Returns: records in the order of the scenarios. Raises: InputError or InputErrors before anything runs.
    """
    out = Path(out)
    items = list(expand(source))
    read = [source, *(file for _, item in items if isinstance(item, Scenario) for file in item.files)]
    for name in TABLES:
        spare(out / name, read, "output folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _alone(out):
            seen: dict[str, str] = {}
            records: dict[str, Record] = {}
            tasks = []
            for name, item in items:
                if isinstance(item, str):
                    records[name] = Record(name, "", "failed", reason=item)
                elif item.name in seen:
                    records[name] = Record(name, item.digest, "failed", reason=f"two scenarios of one name: {seen[item.name]} and {name}")
                else:
                    seen[item.name] = name
                    tasks.append((name, item, str(out), plan_only))
            stream = _dask(tasks, scheduler) if scheduler is not None else _local(tasks, workers or os.cpu_count() or 1)
            for record in (progress(stream, len(tasks)) if progress else stream):
                records[record.name] = record
            ordered = [records[name] for name, _ in items]
            _write(out, ordered)
            return ordered
    except OSError as error:
        raise InputError("output folder", str(out), f"must be a folder that can be written ({error.strerror})") from None


def _text_cell(value) -> str:
    text = str(value)
    return f"'{text}" if text.startswith(tuple("=+-@\t\r")) else text  # a spreadsheet must not run a scenario's name


def _csv(records: list[Record]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f.name for f in fields(Record)]
    writer.writerow(names)
    writer.writerows([_text_cell(asdict(r)[n]) for n in names] for r in records)
    return out.getvalue()


def _index(records: list[Record]) -> str:
    def rank(record):
        return (record.status != "ok", float(record.usd_per_mtok_output or "inf"), float(record.racks or "inf"), record.name)

    def row(record):
        name = html.escape(record.name)
        link = f'<a href="{html.escape(record.path)}/report.html">{name}</a>' if record.path else name
        rest = (record.status, record.racks, record.facility_mw, record.usd_per_mtok_output, record.reason)
        return f"<tr><td>{link}</td>{''.join(f'<td>{html.escape(c)}</td>' for c in rest)}</tr>"

    head = "".join(f"<th>{h}</th>" for h in ("Scenario", "Status", "Racks", "Facility MW", "USD per M output tokens", "Reason"))
    style = ("body{font:15px/1.5 system-ui,sans-serif;margin:28px;color:#1b1f24}table{border-collapse:collapse}td,th{padding:5px 9px;"
             "border-bottom:1px solid #d0d7de;text-align:left}")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
            f'content="{policy}"><title>Planner batch</title><style>{style}</style></head><body><h1>{len(records)} scenarios'
            f"</h1><p>Ranked by cost per million output tokens, then by racks; the best system of each.</p><table><tr>{head}</tr>"
            f"{''.join(row(r) for r in sorted(records, key=rank))}</table></body></html>\n")


def _write(out: Path, records: list[Record]) -> None:
    failed = [r for r in records if r.status != "ok"]
    for name, text in zip(TABLES, (_csv(records), _csv(failed), _index(records)), strict=True):
        with whole_file(out / name, "output folder") as stage:
            stage.write_text(("\ufeff" if name.endswith(".csv") else "") + text, encoding="utf-8")


def bar(stream: Iterable, total: int) -> Iterable:
    """Wrap a stream of records in a progress bar on standard error."""
    from tqdm import tqdm

    return tqdm(stream, total=total, unit="scenario", file=sys.stderr)
