"""Build a notebook from a plain list of cells, so that a new one starts with the house's structure."""

from __future__ import annotations

from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent


def cell(kind: str, source: str, *tags: str):
    """Return a notebook cell of kind `markdown` or `code` with its tags."""
    made = (nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell)(source.strip())
    made.metadata = {"tags": list(tags)} if tags else {}
    return made


def write(name: str, cells: list) -> None:
    """Write notebooks/<name>.ipynb with the cells, without outputs: `make store` runs it."""
    notebook = nbformat.v4.new_notebook(cells=cells)
    for number, made in enumerate(notebook.cells):
        made.id = f"cell-{number:02d}"
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                         "language_info": {"name": "python"}}
    (ROOT / "notebooks" / f"{name}.ipynb").write_text(nbformat.writes(notebook, indent=1) + "\n", encoding="utf-8")
