"""`planner check FILE.csv`: hold the planner against a table of measured or published values."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from planner.errors import Infeasible, InputError, InputErrors
from planner.facts.files import regular
from planner.plan.answer import Answer
from planner.questions import all_questions
from planner.questions.money import HOURLY
from planner.units import UNITS, convert

REQUIRED = ("case", "question", "inputs", "expected", "unit", "rtol")
OPTIONAL = ("source", "locator")
MAX_BYTES = 50_000_000


@dataclass(frozen=True)
class Case:
    """One row of a check file: expected is a number, or the text `refused`; rtol a relative tolerance [1]."""

    case: str
    question: str
    inputs: dict
    expected: float | str
    unit: str
    rtol: float


@dataclass(frozen=True)
class Outcome:
    """What became of one case. status: ok, miss or refused; error_fraction, got / expected - 1 [1]."""

    case: str
    question: str
    status: str
    reason: str
    got: float | None
    expected: float | str
    unit: str
    error_fraction: float | None
    low: float | None
    high: float | None
    inside: bool | None
    how: str
    grade: str
    limit: str


def _no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)} is given twice")
    return dict(pairs)


def _not_a_number(text):
    raise ValueError(f"{text} is not a number that can be used")


def strict_json(text: str):
    """Return the value of a JSON text, refusing what Python's reader lets through.

    Raises: ValueError for NaN, infinities, numbers beyond a float, repeated keys and unreadable text.
    """
    def real(digits):
        value = float(digits)
        return value if math.isfinite(value) else _not_a_number(digits)

    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_not_a_number, parse_float=real)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _row(row: dict, line: int, file: str) -> Case:
    def bad(field, value, allowed):
        return InputError(f"line {line}, {field}", value, allowed, file)

    if row["question"] not in all_questions():
        raise bad("question", row["question"], "must be one of `planner check --questions`")
    try:
        inputs = strict_json(row["inputs"] or "{}")
    except ValueError as error:
        raise bad("inputs", str(error), "must be one JSON object") from None
    if not isinstance(inputs, dict):
        raise bad("inputs", row["inputs"], "must be one JSON object")
    expected, numbers = row["expected"].strip(), {}
    for field in ("expected", "rtol"):
        if field == "expected" and expected == "refused":
            continue
        try:
            numbers[field] = float(row[field] or (0 if field == "rtol" else "nan"))
        except ValueError:
            raise bad(field, row[field], "must be a number" + (" or refused" if field == "expected" else "")) from None
        if not math.isfinite(numbers[field]) or (field == "rtol" and numbers[field] < 0):
            raise bad(field, row[field], "must be finite" + (" and >= 0" if field == "rtol" else ""))
    return Case(row["case"], row["question"], inputs, numbers.get("expected", expected), row["unit"].strip(), numbers["rtol"])


def read(path: str | Path) -> list[Case]:
    """Read a check file (CSV, UTF-8, header with the columns of `REQUIRED`, `OPTIONAL` may follow).

    Returns: cases in file order. Raises: InputErrors naming every bad row.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not regular(path):
            raise InputErrors([InputError("file", str(path), "must be a regular file", path.name)])
        if size > MAX_BYTES:
            raise InputErrors([InputError("file", f"{size} bytes", f"must be at most {MAX_BYTES}", path.name)])
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, InputErrors):
            raise
        raise InputErrors([InputError("file", getattr(error, "strerror", None) or str(error), "must be a readable UTF-8 file",
                                      str(path))]) from None
    csv.field_size_limit(MAX_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [h.strip() for h in next(reader, [])]
    lacking = [c for c in REQUIRED if c not in header]
    if lacking or len(set(header)) < len(header):
        raise InputErrors([InputError("header", ",".join(header), f"must hold each of {', '.join(REQUIRED)} once", path.name)])
    cases, errors = [], []
    for cells in reader:
        if not any(cells):
            continue
        try:
            if len(cells) != len(header):
                raise InputError(f"line {reader.line_num}", len(cells), f"must have {len(header)} cells", path.name)
            cases.append(_row(dict(zip(header, cells, strict=True)), reader.line_num, path.name))
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors)
    if not cases:
        raise InputErrors([InputError("rows", 0, "must be at least one below the header", path.name)])
    return cases


def texts(value) -> Iterator[str]:
    """Yield every text in a value as JSON gives it: what a case's inputs may name, a model's file among it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


def _in_unit(answer: Answer, unit: str) -> tuple[float | None, ...]:
    values = (answer.value, answer.low, answer.high)
    if not unit or unit == answer.unit:
        return values
    if answer.unit.startswith(f"{unit}/") and unit == "USD":
        return values  # the question's name says per what: dollars of usd_per_mtok are dollars a million tokens
    try:
        from planner.facts.catalog import resolve_unit

        unit = resolve_unit(unit)
    except ImportError:
        pass
    if unit != answer.unit and {unit, answer.unit} <= set(HOURLY.values()):
        raise InputError("unit", unit, f"must be {answer.unit}: an hour of one thing is no hour of another")
    return tuple(None if v is None else float(convert(v, answer.unit, unit)) if unit in UNITS else v for v in values)


def run(case: Case) -> Outcome:
    """Ask one question and compare. Returns an Outcome; never raises for a case that was read."""
    refused = case.expected == "refused"

    def said_no(reason, answer=None):
        return Outcome(case.case, case.question, "ok" if refused else "refused", reason, None, case.expected, case.unit,
                       None, None, None, None, answer.how if answer else "", answer.grade if answer else "",
                       answer.limit if answer else "")

    try:
        answer = all_questions()[case.question].ask(case.inputs)
        got, low, high = _in_unit(answer, case.unit)
    except (InputError, Infeasible, InputErrors) as error:
        return said_no(str(error).replace("\n", "; "))
    except Exception as error:  # one faulty row must not hide the others; it is never what was expected
        return replace(said_no(f"failed: {type(error).__name__}: {error}".replace("\n", "; ")), status="refused")
    if got is None:
        return said_no(answer.note or "not available", answer)
    if refused:
        return Outcome(case.case, case.question, "miss", "answered where a refusal was expected", got, "refused", case.unit,
                       None, low, high, None, answer.how, answer.grade, answer.limit)
    error = (got - case.expected) / abs(case.expected) if case.expected else (0.0 if got == 0 else math.inf)
    if not math.isfinite(error):
        error = math.copysign(1.0, got)
    inside = None if low is None or high is None else bool(min(low, high) <= case.expected <= max(low, high))
    # an exact count is compared exactly; a float may differ by its last bits
    close = abs(got - case.expected) <= max(case.rtol, 1e-12 if case.rtol == 0 else 0.0) * abs(case.expected)
    return Outcome(case.case, case.question, "ok" if close else "miss", answer.note, got, case.expected, case.unit, error,
                   low, high, inside, answer.how, answer.grade, answer.limit)


def _p90(errors: list[float]) -> float:
    ordered = sorted(errors)
    place = 0.9 * (len(ordered) - 1)
    below, above = math.floor(place), math.ceil(place)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def summary(outcomes: Iterable[Outcome]) -> list[dict]:
    """Return per question: cases, ok, refused, median and p90 absolute error, bias (mean error) and interval coverage [1]."""
    by_question: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_question.setdefault(outcome.question, []).append(outcome)
    rows = []
    for question, group in by_question.items():
        errors = [o.error_fraction for o in group if o.error_fraction is not None]
        covered = [o.inside for o in group if o.inside is not None]
        size = [abs(e) for e in errors]
        rows.append({"question": question, "cases": len(group), "ok": sum(o.status == "ok" for o in group),
                     "refused": sum(o.got is None for o in group),
                     "median_abs_error": median(size) if size else None, "p90_abs_error": _p90(size) if size else None,
                     "bias": sum(errors) / len(errors) if errors else None,
                     "coverage": sum(covered) / len(covered) if covered else None})
    return rows


def as_json(outcomes: list[Outcome]) -> dict:
    """Return the document that `planner check --json` writes: the cases and the questions' summaries."""
    return {"cases": [asdict(o) for o in outcomes], "questions": summary(outcomes)}
