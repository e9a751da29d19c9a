"""A JupyterLab server of its own on loopback, and the way to run a notebook in it to the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Lab:
    """`with Lab(folder) as lab:` serves a copy of the notebooks; `lab.run(page, name)` opens one and runs every cell."""

    def __init__(self, folder: Path, theme: str = "JupyterLab Light"):
        self.folder, self.port, self.theme = folder, free_port(), theme

    def __enter__(self):
        work = self.folder / "notebooks"
        shutil.copytree(NOTEBOOKS, work, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        settings = self.folder / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
        (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": self.theme}))
        env = {**os.environ, "JUPYTER_CONFIG_DIR": str(self.folder / "config"), "JUPYTER_DATA_DIR": str(self.folder / "share"),
               "JUPYTER_RUNTIME_DIR": str(self.folder / "run"), "JUPYTERLAB_SETTINGS_DIR": str(self.folder / "settings"),
               "JUPYTERLAB_WORKSPACES_DIR": str(self.folder / "workspaces"), "IPYTHONDIR": str(self.folder / "ipython")}
        self.log = (self.folder / "lab.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={self.port}", "--allow-root",
             "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True",
             f"--ServerApp.root_dir={work}"], env=env, stdout=self.log, stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{self.port}"
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{self.url}/api", timeout=1)
                return self
            except OSError:
                assert self.process.poll() is None, (self.folder / "lab.log").read_text()[-2000:]
                time.sleep(0.25)
        raise AssertionError("JupyterLab did not answer within 60 s")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()

    def run(self, page, name: str, seconds: float = 120) -> None:
        """Open a notebook and run all its cells; raises AssertionError when the last prompt has no number in time."""
        page.goto(f"{self.url}/lab/tree/{name}?reset")
        page.wait_for_selector('.jp-NotebookPanel [data-status="idle"]', timeout=90_000)
        time.sleep(3)  # right after the first idle, Run All may run the first cell only
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
            settled = time.monotonic() + 45
            while time.monotonic() < min(deadline, settled):
                if self._finished(page):
                    return
                time.sleep(0.5)
        raise AssertionError(f"{name} did not run to its end within {seconds} s")

    @staticmethod
    def _finished(page) -> bool:
        prompts = page.evaluate("""() => { const nb = window.jupyterapp.shell.currentWidget.content;
            return nb.widgets.filter(c => c.model.type === 'code' && c.model.sharedModel.getSource().trim())
                             .map(c => String(c.model.executionCount) + (c.model.executionState || '')); }""")
        return bool(prompts) and all(re.match(r"^\d+(idle)?$", p) for p in prompts)

    @staticmethod
    def errors(page) -> list[str]:
        """Return the text of every error output of the open notebook."""
        return page.evaluate("""() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(c => c.model.type === 'code')
            .flatMap(c => c.model.sharedModel.getOutputs().filter(o => o.output_type === 'error').map(o => o.evalue))""")
