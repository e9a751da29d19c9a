"""The floors of the house: imports point down, rooms of one rung do not know each other, no module is a warehouse."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "planner"
FLOORS = [
    {"errors"}, {"units", "refusals"}, {"specs", "shapes"}, {"facts", "models"}, {"calibration"}, {"draws", "scenario"}, {"plan"},
    {"sensitivity", "timeline"}, {"decide"}, {"views", "questions"}, {"panels", "report"}, {"batch"}, {"cli"},
]
MODEL_RUNGS = [
    {"roofline", "collectives", "expert_parallel", "interconnect", "power", "cooling", "reliability", "stragglers", "storage", "cost", "queueing",
     "sessions", "service_level"},
    {"transformer"}, {"residency", "fabric"}, {"serving", "training"}, {"rl"},
]
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.stat().st_size)


def level(room, rungs):
    return next((i for i, rung in enumerate(rungs) if room in rung), None)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("planner."):
            yield node.module.split(".")
            for alias in node.names:  # `from planner.models import power` names a room too
                yield [*node.module.split("."), alias.name]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".") for a in node.names if a.name.startswith("planner."))


def arrows_up(path, parts):
    here = path.relative_to(PACKAGE).with_suffix("").parts
    for target in imports(path):
        mine, theirs = level(here[0], FLOORS), level(target[1], FLOORS) if len(target) > 1 else None
        if mine is None or theirs is None:
            continue
        if theirs > mine or (theirs == mine and here[0] != target[1]):
            yield f"{'.'.join(here)} imports {'.'.join(target)}"
        if here[0] == target[1] == "models" and len(target) > 2 and len(here) > 1:
            low, high = level(here[1], MODEL_RUNGS), level(target[2], MODEL_RUNGS)
            if low is not None and high is not None and (high > low or (high == low and here[1] != target[2])):
                yield f"{'.'.join(here)} imports {'.'.join(target)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    assert not sorted(set(arrows_up(path, None)))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_module_is_small_and_named(path):
    assert len(path.read_text().splitlines()) <= 400
    assert path.stem not in {"utils", "common", "base", "helpers", "config"}


def test_every_room_has_a_floor():
    rooms = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__", "share", "__pycache__"} <= set().union(*FLOORS)


def public_functions(path):
    for node in ast.parse(path.read_text()).body:
        members = [node] + (list(node.body) if isinstance(node, ast.ClassDef) else [])
        for member in members:
            if isinstance(member, (ast.FunctionDef, ast.ClassDef)) and not member.name.startswith("_"):
                yield member


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_public_things_have_docstrings(path):
    bare = [f.name for f in public_functions(path) if not ast.get_docstring(f)]
    assert not bare


MODEL_FILES = [p for p in MODULES if "models" in p.relative_to(PACKAGE).parts]


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_model_functions_state_units_validity_error_and_source(path):
    lacking = []
    for function in public_functions(path):
        if isinstance(function, ast.FunctionDef) and path.parent != PACKAGE:
            text = ast.get_docstring(function) or ""
            if isinstance(function, ast.FunctionDef) and not function.decorator_list:
                lacking += [f"{function.name}: {word}" for word in ("Returns", "Raises", "Validity", "Error", "Source", "[")
                            if word not in text]
    assert not lacking
