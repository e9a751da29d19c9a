"""What a question is: its inputs, its unit and the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from planner.errors import InputError
from planner.plan.answer import Answer


@dataclass(frozen=True)
class Input:
    """One input of a question. unit [text, empty for names]; default, used when absent (required: none); meaning.

    structured, True where an object or a list is allowed; other inputs are text, numbers or true/false.
    """

    meaning: str
    unit: str = ""
    required: bool = False
    default: object = None
    structured: bool = False


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
        for name in inputs:
            if name not in self.inputs:
                raise InputError(f"{self.name}.{name}", inputs[name], f"is not an input: use {', '.join(self.inputs)}")
        for name, value in inputs.items():
            if isinstance(value, (dict, list)) and not self.inputs[name].structured:
                raise InputError(f"{self.name}.{name}", value, "must be text or a number, not an object")
        for name, spec in self.inputs.items():
            if spec.required and inputs.get(name) is None:
                raise InputError(f"{self.name}.{name}", None, f"is required ({spec.meaning})")
        given = {name: value for name, value in inputs.items() if value is not None}
        return self.answer({**{n: s.default for n, s in self.inputs.items() if s.default is not None}, **given})
