"""The registry behind `planner check`: one module per area, each with a tuple `QUESTIONS`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from planner.questions.registry import Question


@cache
def all_questions() -> dict[str, Question]:
    """Return every question by name, in the order of the area modules. Raises: ValueError for a name given twice."""
    found: dict[str, Question] = {}
    for module in sorted(m.name for m in iter_modules(__path__)):
        for question in getattr(import_module(f"{__name__}.{module}"), "QUESTIONS", ()):
            if question.name in found:
                raise ValueError(f"question {question.name} is defined twice")
            found[question.name] = question
    return found
