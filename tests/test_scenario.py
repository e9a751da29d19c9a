"""The scenario door: a good file gives a Scenario, a bad one gives one clear line with file, key, value and what is allowed."""

from pathlib import Path

import pytest

from planner import scenario
from planner.errors import InputErrors

MAIN = (Path(__file__).parent.parent / "scenarios" / "rubin-vs-gb300.toml").read_text()

BAD = [
    ("unknown key", "peak_to_mean", "peak_too_mean", "workloads[0].peak_too_mean is not a key"),
    ("text for a number", "input_tokens = 8192", 'input_tokens = "8192"', "input_tokens must be a number of tokens"),
    ("true for a number", "input_tokens = 8192", "input_tokens = true", "input_tokens must be a number of tokens"),
    ("nan", "input_tokens = 8192", "input_tokens = nan", "input_tokens must be a finite number, got nan"),
    ("infinity", "pue = 1.2", "pue = inf", "site.pue must be a finite number"),
    ("1e400", "pue = 1.2", "pue = 1e400", "site.pue must be a finite number"),
    ("negative", "input_tokens = 8192", "input_tokens = -1", "input_tokens.mean must be greater than 0, got -1"),
    ("zero", "requests_per_s = 200 ", "requests_per_s = 0 ", "requests_per_s must be greater than 0, got 0"),
    ("percent for a share", "utilisation_fraction = 0.7", "utilisation_fraction = 70", "70 % is 0.7"),
    ("share of nothing", "utilisation_fraction = 0.7", "utilisation_fraction = 1e-9", "equal to 0.01: a fleet loaded to less than 1 %"),
    ("tiny load", "requests_per_s = 200 ", "requests_per_s = 1e-12 ", "workloads[0].requests_per_s must be at least 1e-09, got 1e-12"),
    ("least float as load", "requests_per_s = 200 ", "concurrency = 1e-300 ", "workloads[0].concurrency must be at least 1e-09"),
    ("PUE below one", "pue = 1.2", "pue = 0.8", "site.pue must be greater than or equal to 1, got 0.8"),
    ("date for a number", "requests_per_s = 200 ", "requests_per_s = 2026-01-01 ", "requests_per_s must be a number, got"),
    ("half a NIC", "nics_per_gpu = 2", "nics_per_gpu = 2.5", "fabric.nics_per_gpu must be a whole number, got 2.5"),
    ("5,000 digits", "input_tokens = 8192", "input_tokens = " + "9" * 5000, "at most 18 digits"),
    ("500 digits", "input_tokens = 8192", "input_tokens = " + "9" * 500, "must be at most 1e18"),
    ("10,000 brackets", "input_tokens = 8192", "input_tokens = " + "[" * 10_000, "nested at most"),
    ("colliding key", "[timeline]", "[site.pue]\nx = 1\n[timeline]", "TOML must be readable"),
    ("repeated key", "pue = 1.2", "pue = 1.2\npue = 1.3", "TOML must be readable"),
    ("another schema", "schema = 1\n", "schema = 9\n", "schema must be one of 1, got 9"),
    ("schema true", "schema = 1\n", "schema = true\n", "schema must be one of 1, got True"),
    ("no schema", "schema = 1\n", "\n", "schema must be one of 1, got None"),
    ("no model", 'model = "deepseek-ai/DeepSeek-R1"', "", "workloads[0].model is required"),
    ("path in a name", 'name = "chat"', 'name = "../x"', "workloads[0].name must not look like a path"),
    ("empty name", 'name = "chat"', 'name = " "', "workloads[0].name must be 1 to 200 characters"),
    ("direction override in a name", 'name = "chat"', 'name = "a\\u202Eb"', "must not contain control"),
    ("range upside down", "low = 4.0", "low = 8.0", "low <= value <= high must hold"),
    ("negative price", "low = 4.0, value = 5.0", "low = -4.0, value = 5.0", "gpu_hour_usd.low must be greater than 0, got -4.0"),
    ("price with a currency", "{ low = 4.0, value = 5.0, high = 6.5 }", '"$5"', "must be a number or {low=, value=, high=}"),
    ("price with a comma", "{ low = 4.0, value = 5.0, high = 6.5 }", '"5,00"', "must be a number or {low=, value=, high=}"),
    ("price without a date", ", as_of = 2026-09-11 }", " }", "as_of is required"),
    ("two loads", "requests_per_s = 200 ", "requests_per_s = 200\nconcurrency = 5 ", "exactly one load"),
    ("no load", "requests_per_s = 200 ", "# ", "exactly one load"),
    ("quantiles upside down", "input_tokens = 8192", "input_tokens = {mean=5, p50=9, p99=2}", "p99 must be >= p50"),
    ("odd lanes", '"4x200G"', '"3x200G"', "fabric.lanes must match"),
    ("growth below -100 %", "growth_per_month = 0.08", "growth_per_month = -1.5", "growth_per_month must be greater than -1"),
]


@pytest.mark.parametrize(("old", "new", "line"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_one_clear_line(old, new, line):
    text = MAIN.replace(old, new, 1)
    assert text != MAIN
    with pytest.raises(InputErrors) as refusal:
        scenario.loads(text, "bad.toml")
    assert line in str(refusal.value)
    assert all(str(e).startswith("bad.toml: ") and "\n" not in str(e) and len(str(e)) < 400 for e in refusal.value.errors)


def test_every_fault_is_named_at_once():
    text = MAIN.replace("pue = 1.2", "pue = 0.5").replace("planes = 4", "planes = 0")
    with pytest.raises(InputErrors) as refusal:
        scenario.loads(text)
    assert {e.field for e in refusal.value.errors} == {"site.pue", "fabric.planes"}


def test_two_workloads_of_one_name_are_refused():
    block = MAIN[MAIN.index("[[workloads]]"):MAIN.index("[[systems]]")]
    with pytest.raises(InputErrors, match="different names"):
        scenario.loads(MAIN.replace("[[systems]]", block + "[[systems]]", 1))


@pytest.mark.parametrize(("raw", "line"), [(b"x" * 1_000_001, "at most 1000000 bytes"), (b"name = '\xff\xfe'", "UTF-8")])
def test_bad_files(tmp_path, raw, line):
    path = tmp_path / "s.toml"
    path.write_bytes(raw)
    with pytest.raises(InputErrors, match=line):
        scenario.load(path)


def test_one_wrong_number_for_a_range_is_one_line():
    with pytest.raises(InputErrors) as refusal:
        scenario.loads(MAIN.replace("{ low = 4.0, value = 5.0, high = 6.5 }", "-1"))
    assert len(refusal.value.errors) == 1


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("slo = { ttft_s = 2.0, tpot_s = 0.0067, quantile = 0.99 }", "slo = 2", "slo must be a table of keys, got 2"),
        ('survive = ["rack"]', 'survive = "rack"', "plan.survive must be a list, got 'rack'"),
        ("as_of = 2026-11-30", 'as_of = "2026-11-30"', "as_of must be a date such as 2026-11-30, not in quotes"),
        ("[timeline]", "[facts]\nH0189 = 'x'\n[timeline]", "facts.H0189 must be a number or {low=, value=, high=}, got 'x'"),
    ],
)
def test_faults_are_said_in_plain_words(old, new, line):
    with pytest.raises(InputErrors, match=line.replace("[", r"\[").replace("{", r"\{")):
        scenario.loads(MAIN.replace(old, new, 1))


def test_missing_file(tmp_path):
    with pytest.raises(InputErrors, match="readable file"):
        scenario.load(tmp_path / "absent.toml")


def test_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MAIN.replace("\n", "\r\n").encode())
    assert scenario.load(path).digest == scenario.loads(MAIN).digest


def test_digest_follows_content_and_not_comments():
    assert scenario.loads(MAIN + "\n# a comment\n").digest == scenario.loads(MAIN).digest
    assert scenario.loads(MAIN.replace("pue = 1.2", "pue = 1.3")).digest != scenario.loads(MAIN).digest


def test_schema_names_every_top_key():
    keys = set(scenario.schema()["properties"])
    assert {"schema", "name", "as_of", "workloads", "systems", "fabric", "site", "plan", "prices", "timeline", "facts"} == keys
