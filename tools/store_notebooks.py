"""Run the notebooks and store them with outputs, the same bytes each time: no widget state, no times, no random ids."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from planner.report.notebook import clean, sockets

ROOT = Path(__file__).resolve().parent.parent


def stored(path: Path) -> str:
    """Return the text of the notebook at `path`, run from top to bottom and cleaned."""
    notebook = nbformat.read(path, as_version=4)
    with sockets() as config:
        NotebookClient(notebook, timeout=300, kernel_name="python3", store_widget_state=False, record_timing=False, config=config,
                       resources={"metadata": {"path": str(path.parent)}}, shutdown_kernel="immediate").execute()
    clean(notebook)
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1) + "\n"


def main(names: list[str]) -> int:
    """Store the notebooks named, or all but the report template. Returns the exit code."""
    paths = [Path(n) for n in names] or sorted(p for p in (ROOT / "notebooks").glob("*.ipynb"))
    for i, path in enumerate(paths, 1):
        sys.stdout.write(f"{i}/{len(paths)} {path.name}\n")
        sys.stdout.flush()
        path.write_text(stored(path), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
