"""Distributions and draws: percentiles as typed, cuts, seeds, copulas, and what has no mass."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from planner import draws
from planner.calibration import grades, table
from planner.errors import InputError
from planner.facts.evidence import claim


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 1e6), st.floats(1, 5), st.floats(1, 5))
def test_percentiles_come_out_as_typed(value, down, up):
    item = draws.between(value, value / down, value * up)
    assert item.quantile([0.1, 0.5, 0.9]) == pytest.approx([value / down, value, value * up], rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 0.98), st.floats(0.1, 1), st.floats(0.1, 1))
def test_shares_stay_shares(value, down, up):
    item = draws.share(value, value * (1 - down) + 0.001 * down, value + (0.999 - value) * up if value < 0.999 else value)
    found = item.quantile(np.linspace(0, 1, 101))
    assert ((found > 0) & (found < 1)).all()
    assert (np.diff(found) >= 0).all()


def test_normal_where_a_range_crosses_zero():
    assert draws.between(0.0, -1.0, 2.0).kind == "normal"
    assert draws.between(0.0, -1.0, 2.0).quantile([0.1, 0.9]) == pytest.approx([-1, 2])


def test_cuts_are_kept_and_no_mass_is_refused():
    item = draws.between(1.0, 0.5, 2.0, least=0.8, most=1.2)
    found = item.quantile(np.linspace(0, 1, 1001))
    assert found.min() == pytest.approx(0.8)
    assert found.max() == pytest.approx(1.2)
    assert np.mean(found < 1) == pytest.approx(0.5, abs=0.1)
    with pytest.raises(InputError, match="leave no mass"):
        draws.Distribution("normal", 1.0, 0.9, 1.1, least=1.0, most=1.0).quantile(0.5)


IMPOSSIBLE = {("a", "b"): 1.0, ("b", "c"): 1.0, ("a", "c"): -1.0}


@pytest.mark.parametrize(("make", "words"), [
    (lambda: draws.between(1.0, 2.0, 0.5), "upside down"), (lambda: draws.between(3.0, 1.0, 2.0), "between low"),
    (lambda: draws.between(float("nan"), 1.0, 2.0), "finite"), (lambda: draws.Distribution("uniform", 1.0, 1.0, 1.0), "no mass"),
    (lambda: draws.choice([1.0, 2.0], [0.0, 0.0]), "must have mass"), (lambda: draws.choice([], []), "at least one"),
    (lambda: draws.choice([1.0], [-1.0]), "must be >= 0"), (lambda: draws.share(0.5, 0.0, 0.9), "for a share"),
    (lambda: draws.Distribution("cauchy", 1.0, 1.0, 1.0), "kind"), (lambda: draws.between(1.0, 0.5, 2.0, least=1.5), "must hold the value"),
    (lambda: draws.sample({}, 0), "num"), (lambda: draws.sample({"a": draws.fixed(1)}, method="dice"), "sobol"),
    (lambda: draws.sample({"a": draws.fixed(1)}, correlations={("a", "b"): 0.5}), "must be one of a"),
    (lambda: draws.sample(dict.fromkeys("abc", draws.between(1, 0.5, 2)), correlations=IMPOSSIBLE), "together")])
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_same_seed_same_draws_and_the_central_value_first():
    inputs = {"a": draws.between(2.0, 1.0, 4.0), "b": draws.fixed(7.0), "c": draws.choice([1, 2], [1, 3])}
    one, two, other = draws.sample(inputs), draws.sample(inputs), draws.sample(inputs, seed=1)
    assert all((one[k] == two[k]).all() for k in inputs)
    assert not (one["a"] == other["a"]).all()
    assert [one[k][0] for k in inputs] == [2.0, 7.0, 2.0]
    assert len(one["a"]) == draws.NUM_DRAWS + 1
    assert np.mean(one["c"][1:] == 2) == pytest.approx(0.75, abs=0.01)
    assert set(one["b"]) == {7.0}


@pytest.mark.parametrize("method", ["sobol", "latin", "random"])
def test_any_number_of_draws(method):
    found = draws.sample({"a": draws.between(2.0, 1.0, 4.0), "b": draws.between(1.0, 0.9, 1.1)}, 1000, method=method)
    assert len(found["a"]) == 1001
    assert draws.interval(found["a"]) == pytest.approx((2, 1, 4), rel=0.01 if method != "random" else 0.2)


def test_triangular_and_uniform_moments():
    found = draws.sample({"t": draws.Distribution("triangular", 2.0, 1.0, 4.0), "u": draws.Distribution("uniform", 2.0, 1.0, 5.0)}, 4096)
    assert found["t"][1:].mean() == pytest.approx(7 / 3, rel=1e-3)
    assert found["u"][1:].mean() == pytest.approx(3, rel=1e-3)


def test_correlations_reach_the_draws():
    inputs = {k: draws.between(1.0, 0.5, 2.0) for k in "ab"}
    found = draws.sample(inputs, 4096, correlations={("a", "b"): 0.8})
    assert spearmanr(found["a"][1:], found["b"][1:]).statistic == pytest.approx(6 / np.pi * np.arcsin(0.4), abs=0.01)
    assert draws.interval(found["b"]) == pytest.approx((1, 0.5, 2), rel=0.03)


def test_claims_become_distributions():
    printed = draws.from_claim(claim("H0058"))  # a printed range
    assert (printed.low, printed.value, printed.high) == (250, 350, 450)
    alone = draws.from_claim(claim("H0312"))
    spread = grades.grade_spread("E")
    assert (alone.low / alone.value, alone.high / alone.value) == pytest.approx((spread.low, spread.high))
    with pytest.raises(InputError, match="not available"):
        draws.from_claim(claim("H0056"))


def test_a_weaker_grade_is_never_taken_for_surer():
    rows = grades.fit()
    assert table.text(rows) == (table.folder("data") / "calibration" / "grades.csv").read_text()
    for strong, weak in pairwise(rows):
        assert weak.low <= strong.low
        assert weak.high >= strong.high
    with pytest.raises(InputError):
        grades.grade_spread("X")


def test_constants_become_distributions():
    item = draws.from_constant(table.constant("power", "cap_exponent"))
    assert item.how == "modelled"
    assert item.low < item.value < item.high
