"""papermill in the middle: the template notebook run on a plan, cleaned so that the same plan gives the same bytes."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from pathlib import Path

from planner.errors import InputError
from planner.facts.files import folder
from planner.plan.types import Plan

PARAMETERS = {"plan_file": str}
WIDGET = "application/vnd.jupyter.widget-view+json"


def checked(parameters: dict) -> dict:
    """Return the parameters of the report notebook, or refuse an unknown name or a wrong type.

    Raises: InputError. papermill itself only warns of an unknown name and does not enforce types.
    """
    for name, value in parameters.items():
        if name not in PARAMETERS:
            raise InputError(f"parameter {name}", value, f"is not one of {', '.join(PARAMETERS)}")
        if type(value) is not PARAMETERS[name]:
            raise InputError(f"parameter {name}", value, f"must be {PARAMETERS[name].__name__}")
    return parameters


@contextlib.contextmanager
def sockets():
    """Yield a configuration whose kernels talk over sockets in a folder of their own: no port, no race for one, nothing left behind."""
    from traitlets.config import Config

    with tempfile.TemporaryDirectory(prefix="planner-") as folder_of_sockets:
        manager = {"transport": "ipc", "ip": f"{folder_of_sockets}/k"}
        yield Config({"KernelManager": manager, "AsyncKernelManager": manager})


def execute(stage: Path, plan: Plan, template: str = "report.ipynb"):
    """Run the template in `stage`, where plan.json is, and store the executed notebook there as report.ipynb.

    Parameters: stage, the folder of the report being made; plan, for the notebook's own metadata. Returns: the nbformat node.
    Raises: papermill's error when a cell fails.
    """
    import nbformat
    import papermill

    logging.getLogger("papermill").setLevel(logging.ERROR)
    target = stage / "report.ipynb"
    with warnings.catch_warnings(), sockets() as config:
        warnings.simplefilter("ignore")
        papermill.execute_notebook(str(folder("notebooks") / template), str(target), checked({"plan_file": "plan.json"}),
                                   cwd=str(stage), kernel_name="python3", progress_bar=False, log_output=False, config=config,
                                   shutdown_kernel="immediate", store_widget_state=False, record_timing=False)
    notebook = clean(nbformat.read(target, as_version=4))
    notebook.metadata["planner"] = {"input_digest": plan.digest, "version": plan.version}
    target.write_text(nbformat.writes(notebook, indent=1) + "\n", encoding="utf-8")
    return notebook


def clean(notebook):
    """Drop what differs from run to run: times, ids, widget state. Returns the notebook, changed in place."""
    notebook.metadata.clear()
    notebook.metadata.update({"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                              "language_info": {"name": "python"}})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        tags = cell.metadata.get("tags")
        cell.metadata.clear()
        if tags:
            cell.metadata["tags"] = tags
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
        if "outputs" in cell:
            cell.outputs = _joined_streams(cell.outputs)
    return notebook


def _joined_streams(outputs: list) -> list:
    """Return outputs with neighbouring pieces of one stream as one: where a print is cut depends on the clock."""
    found: list = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream" and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found
