"""What a question is: its inputs, its unit and the function that answers it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from planner.errors import InputError
from planner.plan.answer import Answer
from planner.units import convert, number

_QUANTITY = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%][A-Za-z0-9/%-]*)")


@dataclass(frozen=True)
class Input:
    """One input of a question. unit [text, empty for names]; default, used when absent (required: none); meaning.

    structured, True where an object or a list is allowed; other inputs are text, numbers or true/false. also, other spellings: name ->
    the unit that spelling is in (empty: the same). Where the input has a unit, {"value": 5, "unit": "min"} and "5 min" are read too.
    null, whether null says something of its own (a price that is not available) and is not the same as absent.
    """

    meaning: str
    unit: str = ""
    required: bool = False
    default: object = None
    structured: bool = False
    also: Mapping[str, str] = field(default_factory=dict)
    null: bool = False

    def read(self, name: str, value: object, unit: str = "") -> object:
        """Return `value` in this input's unit; one without a unit of its own is in `unit`. Raises: InputError for another kind of unit."""
        if not self.unit or isinstance(value, bool):
            return value
        if isinstance(value, Mapping) and set(value) == {"value", "unit"}:
            value, unit = value["value"], value["unit"]
        elif isinstance(value, str) and (found := _QUANTITY.fullmatch(value.strip())):
            value, unit = float(found[1]), found[2]
        if unit and unit != self.unit and isinstance(value, (int, float)) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                try:
                    return float(convert(number(name, value), unit, self.unit))
                except InputError:
                    raise InputError(name, f"{value} {unit}", f"must be in {self.unit} or a unit that converts to it") from None
        return value


def not_used(inputs: Mapping, *names: str) -> str:
    """Return the note that says which of the inputs given had no part in the answer, empty where none of them is given."""
    found = [name for name in names if inputs.get(name) is not None]
    return f"{', '.join(found)} not used" if found else ""


@dataclass(frozen=True)
class Question:
    """One question of `planner check`: answer(inputs) -> Answer, with inputs checked against the table first.

    calls names the public function behind it, for people who go on in Python.
    """

    name: str
    summary: str
    unit: str
    calls: str
    inputs: Mapping[str, Input] = field(default_factory=dict)
    answer: Callable[[dict], Answer] = None

    def ask(self, inputs: Mapping[str, object]) -> Answer:
        """Return the answer for one set of inputs.

        Raises: InputError for an unknown or missing input, or a value the models refuse; Infeasible where the input is
        right and no answer exists.
        """
        inputs = self._own_names(inputs)
        for name in inputs:
            if name not in self.inputs:
                raise InputError(f"{self.name}.{name}", inputs[name], f"is not an input: use {', '.join(self.inputs)}")
        for name, value in inputs.items():
            if isinstance(value, (dict, list)) and not self.inputs[name].structured:
                raise InputError(f"{self.name}.{name}", value, "must be text or a number, not an object")
        for name, spec in self.inputs.items():
            if spec.required and inputs.get(name) is None:
                raise InputError(f"{self.name}.{name}", None, f"is required ({spec.meaning})")
        given = {name: value for name, value in inputs.items() if value is not None or self.inputs[name].null}
        with np.errstate(over="ignore", invalid="ignore"):  # absurd sizes end as an infinity, which an Answer refuses by name
            return self.answer({**{n: s.default for n, s in self.inputs.items() if s.default is not None}, **given})

    def _own_names(self, inputs: Mapping[str, object]) -> dict[str, object]:
        """Return the inputs under this question's own names and units."""
        spellings = {other: (name, unit) for name, spec in self.inputs.items() for other, unit in spec.also.items()}
        found: dict[str, object] = {}
        for given, value in inputs.items():
            name, unit = (given, "") if given in self.inputs else spellings.get(given, (given, ""))
            if name in found and value is not None:
                raise InputError(f"{self.name}.{given}", value, f"says {name} a second time")
            found[name] = self.inputs[name].read(f"{self.name}.{given}", value, unit) if name in self.inputs else value
        return found
