"""What every panel needs: recompute at most once per frame with the last value, and figures that change in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import ipywidgets as widgets
import plotly.graph_objects as go

FRAME_SECONDS = 1 / 60


class Debounced:
    """Call a function at most once per frame while values keep coming; the last value wins.

    Without a running event loop (a test, a batch run) the call happens at once.
    """

    def __init__(self, function: Callable[[], None]):
        self.function, self.waiting = function, False

    def call(self) -> None:
        """Ask for a call: made at once without an event loop, else at the end of the frame."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.function()
            return
        if not self.waiting:
            self.waiting = True
            loop.call_later(FRAME_SECONDS, self._run)

    def _run(self) -> None:
        self.waiting = False
        self.function()


class LiveFigure:
    """A figure that follows a plan: a FigureWidget updated in place, or a static figure where widgets cannot be had."""

    def __init__(self, view: Callable[..., go.Figure]):
        self.view = view
        try:
            self.figure = go.FigureWidget(layout={"autosize": True})
            self.figure._config = {**self.figure._config, "responsive": True}
            self.widget = widgets.VBox([self.figure], layout=widgets.Layout(width="100%"))
        except ImportError:  # anywidget missing: the picture is still there, redrawn as a whole
            self.figure, self.widget = None, widgets.Output()

    def update(self, *values) -> None:
        """Draw view(*values): traces of the same kind change their data, others are replaced."""
        new = self.view(*values)
        if self.figure is None:
            self.widget.outputs = ()
            self.widget.append_display_data(new)
            return
        with self.figure.batch_update():
            same = [t.type for t in self.figure.data] == [t.type for t in new.data]
            if same:
                for mine, theirs in zip(self.figure.data, new.data, strict=True):
                    mine.update(theirs.to_plotly_json(), overwrite=False)
            else:
                self.figure.data = ()
                self.figure.add_traces(new.data)
            self.figure.layout = new.layout


def live_figure(view: Callable[..., go.Figure]) -> LiveFigure:
    """Return a LiveFigure for a view; `update` draws it."""
    return LiveFigure(view)
