"""Run the notebooks and store them with outputs, the same bytes each time: no widget state, no times, no random ids."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
IPC = Config({"KernelManager": {"transport": "ipc"}, "AsyncKernelManager": {"transport": "ipc"}})
WIDGET = "application/vnd.jupyter.widget-view+json"


def stored(path: Path) -> str:
    """Return the text of the notebook at `path`, run from top to bottom and cleaned."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", store_widget_state=False, record_timing=False, config=IPC,
                   resources={"metadata": {"path": str(path.parent)}}, shutdown_kernel="immediate").execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                         "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
            output.metadata = {} if "metadata" in output else output.get("metadata")
            if output.output_type == "stream":
                output.pop("metadata", None)
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
