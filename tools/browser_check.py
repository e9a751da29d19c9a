"""`make browser`: every notebook in JupyterLab, light and dark, 1280 and 1920 px: no error, no request outside, a screenshot to look at."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "browser"))
from lab import Lab  # noqa: E402

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE = ".jp-WindowedPanel-outer"


def main() -> int:
    """Run every notebook in each look; print a line each. Returns 1 when one failed."""
    out = ROOT / "scratch" / "screenshots"
    out.mkdir(parents=True, exist_ok=True)
    names = sorted(p.name for p in (ROOT / "notebooks").glob("*.ipynb"))
    code = 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for theme in ("JupyterLab Light", "JupyterLab Dark"):
            with Lab(Path(tempfile.mkdtemp()), theme) as lab:
                for width in (1280, 1920):
                    page = browser.new_page(viewport={"width": width, "height": 1400})
                    outside: list[str] = []
                    page.on(
                        "request",
                        lambda r, seen=outside: None if "127.0.0.1" in r.url or r.url.startswith(("data:", "blob:")) else seen.append(r.url),
                    )
                    for name in names:
                        lab.run(page, name)
                        faults = lab.errors(page) + outside
                        code = 1 if faults else code
                        height = page.evaluate(f"document.querySelector('{PAGE}').scrollHeight")
                        for i, top in enumerate(range(0, height, 1250)):
                            page.evaluate(f"document.querySelector('{PAGE}').scrollTop={top}")
                            page.wait_for_timeout(500)
                            page.screenshot(path=out / f"{Path(name).stem}-{theme.split()[-1].lower()}-{width}-{i}.png")
                        sys.stdout.write(f"{'FAIL' if faults else 'ok  '} {name} {theme} {width} px {faults[:2] if faults else ''}\n")
                        sys.stdout.flush()
                    page.close()
        browser.close()
    sys.stdout.write(f"screenshots in {out.relative_to(ROOT)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
