"""`make bench`: a fixed reference kernel first, then every benchmark beside its target and the target scaled to this machine."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).resolve().parent
REFERENCE = HERE / "reference.json"


def numpy_kernel() -> None:
    """A fixed NumPy load: 20 passes of sqrt, multiply and sum over two million doubles."""
    x = np.linspace(1.0, 2.0, 2_000_000)
    for _ in range(20):
        float((np.sqrt(x) * x).sum())


def python_kernel() -> None:
    """A fixed Python load: three million additions in a loop."""
    total = 0
    for i in range(3_000_000):
        total += i & 7


def seconds(function, least: int = 3, budget: float = 20.0) -> float:
    """Return the median of at least `least` timed calls, fewer where one call takes longer than the budget."""
    times = []
    begun = time.perf_counter()
    while len(times) < least or (len(times) < 9 and time.perf_counter() - begun < 2.0):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
        if time.perf_counter() - begun > budget:
            break
    return median(times)


def cases(only: list[str]):
    """Yield (area, name, callable, target text, target seconds) of every benchmarks/bench_*.py, or of the areas named."""
    for path in sorted(HERE.glob("bench_*.py")):
        area = path.stem.removeprefix("bench_")
        if only and area not in only:
            continue
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function, text, target in module.cases():
            yield area, name, function, text, target


def main(only: list[str]) -> int:
    """Run, print and write benchmarks/results.json. Returns 0: a slow machine is not a failure."""
    here = {"numpy_s": seconds(numpy_kernel), "python_s": seconds(python_kernel)}
    if not REFERENCE.exists():
        REFERENCE.write_text(json.dumps(here, indent=1) + "\n")
    reference = json.loads(REFERENCE.read_text())
    factor = max(here[k] / reference[k] for k in here)
    print(f"reference kernels: NumPy {here['numpy_s']:.3f} s, Python {here['python_s']:.3f} s; this machine runs at "
          f"{factor:.2f} of the reference's time (1 = the same)")
    rows = []
    for area, name, function, text, target in cases(only):
        took = seconds(function)
        scaled = target * max(1.0, factor)
        rows.append({"area": area, "name": name, "seconds": took, "target": text, "target_seconds": target, "scaled_target_seconds": scaled,
                     "met": took <= scaled})
        print(f"{'met ' if took <= scaled else 'MISS'} {area}: {name}: {took:.4g} s, target {text}, scaled {scaled:.4g} s", flush=True)
    if not only:
        (HERE / "results.json").write_text(json.dumps({"kernels": here, "factor": factor, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
