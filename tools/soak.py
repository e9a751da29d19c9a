"""`make soak`: many random inputs against every door; each must end in an answer or a refusal that names the field. The seed is printed."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from planner import scenario
from planner.errors import Infeasible, InputError, InputErrors
from planner.facts import modelcards
from planner.plan import plan
from planner.questions import all_questions

ROOT = Path(__file__).resolve().parent.parent
ODD = [
    0,
    -1,
    1,
    2,
    3,
    71,
    72,
    73,
    1e308,
    -1e-9,
    1e15,
    10**30,
    True,
    False,
    None,
    "",
    "72",
    "nan",
    "fp4",
    "../x",
    "=1+1",
    "<b>",
    [],
    {},
    [1],
    {"tp": 8},
    0.5,
    131072,
    "nvfp4",
    "fp8",
    "DeepSeek-R1",
    "gb300",
    "\u202e",
    "x" * 300,
]


def mutated(rng: random.Random, value):
    """Return a copy of nested content with one place replaced, dropped or doubled."""
    content = json.loads(json.dumps(value, default=str))
    place, trail = content, []
    while isinstance(place, (dict, list)) and place:
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        trail.append((place, key))
        place = place[key]
        if rng.random() < 0.35:
            break
    if trail:
        owner, key = trail[-1]
        if rng.random() < 0.15 and isinstance(owner, dict):
            owner.pop(key)
        elif rng.random() < 0.15 and isinstance(owner, dict):
            owner[f"{key}_x"] = owner[key]
        else:
            owner[key] = rng.choice(ODD)
    return content


def attempt(rng: random.Random, base: dict, configs: list[dict], questions: list) -> str:
    """Make one random input, and return what became of it: answer, refused or infeasible."""
    door = rng.random()
    try:
        if door < 0.5:
            plan_it = scenario.parse(mutated(rng, base), "soak")
            if rng.random() < 0.02:
                plan(plan_it)
        elif door < 0.75:
            modelcards.load(mutated(rng, rng.choice(configs)))
        else:
            question = rng.choice(questions)
            names = list(question.inputs)
            question.ask({n: rng.choice(ODD) for n in rng.sample(names, rng.randint(0, min(4, len(names))))})
    except (InputError, InputErrors):
        return "refused"
    except Infeasible:
        return "infeasible"
    return "answer"


def main(number: int, seed: int) -> int:
    """Run `number` inputs; print counts, the slowest and every crash with its index. Returns 1 when one crashed."""
    import tomllib

    base = tomllib.loads((ROOT / "scenarios" / "rubin-vs-gb300.toml").read_text())
    base["as_of"] = base["as_of"].isoformat()
    for price in base["prices"].values():
        price["as_of"] = price["as_of"].isoformat()
    configs = [modelcards.read(p) for p in list(modelcards.catalogue().values())[::4]]
    questions, counts, slowest, crashes = list(all_questions().values()), {}, (0.0, -1), []
    begun = time.monotonic()
    for i in range(number):
        rng = random.Random(seed * 1_000_003 + i)
        start = time.monotonic()
        try:
            word = attempt(rng, base, configs, questions)
        except Exception as error:
            word = "CRASH"
            crashes.append(f"{i}: {type(error).__name__}: {str(error)[:150]}")
        counts[word] = counts.get(word, 0) + 1
        slowest = max(slowest, (time.monotonic() - start, i))
        if number >= 10_000 and i % 10_000 == 9_999:
            sys.stdout.write(f"{i + 1} inputs, {time.monotonic() - begun:.0f} s, {counts}\n")
            sys.stdout.flush()
    sys.stdout.write(f"seed {seed}: {counts}, slowest {slowest[0]:.2f} s (input {slowest[1]})\n")
    for line in crashes[:20]:
        sys.stdout.write(f"crash {line}\n")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1))
