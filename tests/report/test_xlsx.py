"""The workbook: text is never a formula, numbers stay numbers, missing is said, names are legal, bytes repeat."""

import datetime
import io

import openpyxl
import pandas as pd
import pytest

from planner.report.write import slug
from planner.report.xlsx import sheet_name, workbook

DAY = datetime.date(2026, 11, 30)


def read(frame):
    return openpyxl.load_workbook(io.BytesIO(workbook({"T": frame}, DAY)))["T"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "=HYPERLINK(1)", "http://x.invalid", "中文 名"])
def test_text_stays_text(text):
    cell = read(pd.DataFrame({"a": [text]}))["A2"]
    assert cell.data_type == "s"
    assert cell.hyperlink is None
    assert cell.value.strip() == text.strip()


def test_numbers_missing_and_long_integers():
    sheet = read(pd.DataFrame({"a": [1.5, float("nan"), None, 10**20]}, dtype=object))
    assert [sheet.cell(r, 1).value for r in range(2, 6)] == [1.5, "not available", "not available", "1" + "0" * 20]


def test_control_characters_are_dropped():
    assert read(pd.DataFrame({"a": ["x\x00\x1by"]}))["A2"].value == "xy"


def test_sheet_names_are_legal_and_different():
    taken = set()
    names = [sheet_name(t, taken) for t in ("a/b:c", "a/b:c", "A-B-C", "x" * 40, "x" * 40, "", "[]", "'q'")]
    assert len({n.lower() for n in names}) == len(names)
    assert all(0 < len(n) <= 31 and not set(n) & set("/\\:*?[]") for n in names)


def test_same_tables_same_bytes():
    frame = pd.DataFrame({"a": [1, 2]})
    assert workbook({"T": frame}, DAY) == workbook({"T": frame}, DAY)


@pytest.mark.parametrize(("name", "expected"), [("DeepSeek-R1 on Vera Rubin", "deepseek-r1-on-vera-rubin"), ("中文", "scenario"),
                                                ("a/b:c", "a-b-c"), (".hidden.", "hidden"), ("x" * 300, "x" * 60), ("Ünïcode", "unicode")])
def test_folder_names(name, expected):
    assert slug(name) == expected
