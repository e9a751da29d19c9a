"""Strict nbval compares text: figures are compared through their printed digest, not through base64 doubles or random ids."""


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("text/html", "application/vnd.plotly.v1+json", "application/vnd.jupyter.widget-view+json")
