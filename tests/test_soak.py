"""A small share of the soak: random inputs end in an answer or a refusal, never in a traceback."""

import runpy
from pathlib import Path

SOAK = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "soak.py"))


def test_two_thousand_random_inputs(capsys):
    assert SOAK["main"](2000, 11) == 0
    assert "'answer'" in capsys.readouterr().out
