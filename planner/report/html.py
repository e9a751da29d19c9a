"""An executed notebook as one offline HTML file: plots stay interactive, nothing is fetched."""

from __future__ import annotations

from functools import cache
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parent / "template"
HIDDEN_TAGS = {"interactive", "parameters", "injected-parameters", "setup"}


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script")


def render(notebook, title: str, language: str = "en") -> str:
    """Return the HTML text of an executed notebook.

    Parameters: notebook, an nbformat node with outputs; title, plain text, escaped here; language, the page's language tag.
    Returns: one self-contained page; code is left out, and so are cells tagged with one of `HIDDEN_TAGS`.
    Raises: nothing beyond nbconvert's own errors.
    """
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    config = Config({
        "HTMLExporter": {"exclude_input": True, "exclude_output_prompt": True, "exclude_anchor_links": True},
        "TagRemovePreprocessor": {"enabled": True, "remove_cell_tags": HIDDEN_TAGS},
    })
    notebook.metadata.pop("widgets", None)
    exporter = HTMLExporter(config=config, template_name="planner", extra_template_basedirs=[str(TEMPLATES)])
    css = (TEMPLATES / "planner" / "report.css").read_text(encoding="utf-8")
    body, _ = exporter.from_notebook_node(notebook, resources={"plotlyjs": _plotly(), "css": css, "title": title,
                                                               "language": language})
    return body
