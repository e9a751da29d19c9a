"""The catalogue in a fresh process: import and one system; and every system with what stands behind it."""

from __future__ import annotations

import subprocess
import sys

ONE = "from planner.facts import catalog; catalog.system('gb300-nvl72')"
ALL = "from planner.facts import catalog as c; [c.claims_behind(c.system(n, p)) for n in c.system_names() for p in c.profiles(n)]"


def cases():
    """Return the benchmarks of this area: (name, callable, target text, target seconds)."""

    def process(code):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    return [("catalogue: import and one system, fresh process", process(ONE), "0.3 s with the interpreter and NumPy", 0.3),
            ("catalogue: every system and its claims, fresh process", process(ALL), "0.5 s", 0.5)]
