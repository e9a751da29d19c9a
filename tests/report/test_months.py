"""The workbook's months: one a column, the same numbers as the plan's growth."""

import datetime
import io

import openpyxl

from planner import scenario
from planner.decide import decide
from planner.facts.files import folder
from planner.report.xlsx import workbook
from planner.views import decision as view


def test_the_workbook_has_months_as_columns():
    made = decide(scenario.load(folder("scenarios") / "rubin-vs-gb300.toml"))
    book = openpyxl.load_workbook(io.BytesIO(workbook(view.tables(made), datetime.date(2026, 11, 30))))
    rows = [[c.value for c in row] for row in book["Months"].rows]
    served = [o for o in made.options if o.growth is not None]
    assert served
    assert rows[0] == ["workload", "system", "quantity", *served[0].growth.months]
    assert len(rows) == 1 + 6 * len(served)
    for i, option in enumerate(served):
        table = {row[2]: row[3:] for row in rows[1 + 6 * i:7 + 6 * i]}
        assert table["racks needed"] == list(option.growth.racks)
        assert sum(table["racks to order"]) == sum(table["racks that begin to serve"]) == sum(o.racks for o in option.growth.orders)
