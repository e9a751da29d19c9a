"""A workbook with one sheet per table: text stays text, numbers stay numbers, and the same tables give the same bytes."""

from __future__ import annotations

import datetime
import io
import math
import re
from collections.abc import Mapping

NOT_AVAILABLE = "not available"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def sheet_name(title: str, taken: set[str]) -> str:
    """Return a legal sheet name for `title`: at most 31 letters, none of / \\ : * ? [ ], unlike any in `taken`.

    Raises: nothing. `taken` gains the name.
    """
    name = re.sub(r"[\x00-\x1f/\\:*?\[\]]", "-", title).strip("'- ")[:31] or "sheet"
    number, stem = 2, name
    while name.lower() in {t.lower() for t in taken}:
        name, number = f"{stem[:31 - len(str(number)) - 1]}-{number}", number + 1
    taken.add(name)
    return name


def workbook(tables: Mapping[str, object], as_of: datetime.date) -> bytes:
    """Return an XLSX file with one sheet per table.

    Parameters: tables, title -> pandas DataFrame with a flat header; as_of, the date stamped in the file's properties.
    Returns: the file's bytes. Missing values and NaN are written as "not available"; integers beyond 15 digits as text.
    Raises: nothing for any text: a cell is never a formula.
    """
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False,
                                     "strings_to_numbers": False, "nan_inf_to_errors": False})
    stamp = datetime.datetime(as_of.year, as_of.month, as_of.day)
    book.set_properties({"title": "Planner", "created": stamp})
    bold, wrap = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"}), book.add_format({"valign": "top"})
    taken: set[str] = set()
    for title, frame in tables.items():
        sheet = book.add_worksheet(sheet_name(title, taken))
        sheet.freeze_panes(1, 1)
        for column, header in enumerate(frame.columns):
            values = frame[header].tolist()
            sheet.write_string(0, column, clean(str(header)), bold)
            for row, value in enumerate(values, 1):
                _cell(sheet, row, column, value, wrap)
            widest = max([len(str(header)), *(min(len(str(v)), 60) for v in values)], default=8)
            sheet.set_column(column, column, min(max(9, widest + 1), 60))
    book.close()
    return out.getvalue()


def clean(text: str) -> str:
    """Return text without the control characters that a spreadsheet file cannot hold, cut at 32,767 letters."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))[:32767]


def _cell(sheet, row: int, column: int, value, style) -> None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        sheet.write_string(row, column, NOT_AVAILABLE, style)
    elif isinstance(value, bool):
        sheet.write_boolean(row, column, value, style)
    elif isinstance(value, int) and abs(value) >= 10**15:
        sheet.write_string(row, column, str(value), style)
    elif isinstance(value, (int, float)):
        sheet.write_number(row, column, value, style)
    else:
        sheet.write_string(row, column, clean(str(value)), style)
