"""Sensitivity against closed forms: Ishigami, linear models, a linear Gaussian choice, and exact products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

from planner import draws, sensitivity
from planner.errors import Infeasible, InputError

ANGLE = draws.Distribution("uniform", 0.0, -np.pi, np.pi)
NORMAL = draws.between(0.0, -draws.Z90, draws.Z90)  # a standard normal


def ishigami(x):
    return np.sin(x["a"]) + 7 * np.sin(x["b"]) ** 2 + 0.1 * x["c"] ** 4 * np.sin(x["a"])


def test_ishigami():
    found = sensitivity.sobol_indices(ishigami, dict.fromkeys("abc", ANGLE), 16384)
    variance = 7**2 / 8 + 0.1 * np.pi**4 / 5 + 0.1**2 * np.pi**8 / 18 + 0.5
    first = {"a": 0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2 / variance, "b": 7**2 / 8 / variance, "c": 0.0}
    together = 0.1**2 * np.pi**8 * (1 / 18 - 1 / 50) / variance
    total = {"a": first["a"] + together, "b": first["b"], "c": together}
    for name, index in found.items():
        assert index.first == pytest.approx(first[name], abs=0.01)
        assert index.total == pytest.approx(total[name], abs=0.01)
    assert list(found) == ["a", "b", "c"]


def test_a_linear_model():
    weights = {"a": 3.0, "b": 2.0, "c": 1.0, "still": 5.0}
    inputs = {**dict.fromkeys("abc", NORMAL), "still": draws.fixed(2.0)}
    found = sensitivity.sobol_indices(lambda x: sum(w * x[n] for n, w in weights.items()), inputs, 16384)
    assert set(found) == set("abc")
    for name, index in found.items():
        assert index.first == pytest.approx(weights[name] ** 2 / 14, abs=0.01)
        assert index.total == pytest.approx(weights[name] ** 2 / 14, abs=0.01)


def test_tornado_is_sorted_and_holds_the_ends():
    inputs = {"a": draws.between(2.0, 1.0, 4.0), "b": draws.between(10.0, 9.0, 30.0), "c": draws.fixed(1.0)}
    middle, bars = sensitivity.tornado(lambda x: x["a"] + x["b"] * x["c"], inputs)
    assert middle == 12
    assert [b.name for b in bars] == ["b", "a"]
    assert (bars[0].at_low, bars[0].at_high, bars[0].swing) == pytest.approx((11, 32, 21))
    assert (bars[1].low, bars[1].high) == pytest.approx((1, 4))


def test_probability_better():
    drawn = draws.sample({"a": NORMAL, "b": NORMAL}, 4096)
    chance, error = sensitivity.probability_better(drawn["a"][1:] + 1, drawn["b"][1:])
    assert chance == pytest.approx(float(ndtr(1 / np.sqrt(2))), abs=0.01)
    assert 0 < error < 0.01
    assert sensitivity.probability_better([1.0, 2.0], [1.0, 1.0])[0] == 0.75
    assert sensitivity.probability_better([1.0, 2.0], [1.0, 1.0], larger=False)[0] == 0.25
    with pytest.raises(InputError):
        sensitivity.probability_better([1.0], [1.0, 2.0])


def test_value_of_learning_of_a_linear_choice():
    """Two options, one pays 0, the other m + 2 x + y: knowing an input of weight w is worth w phi(m / w) - |m| Phi(-|m| / w)."""
    drawn = {n: v[1:] for n, v in draws.sample({"x": NORMAL, "y": NORMAL, "idle": NORMAL}, 4096).items()}
    mean = 0.5
    found = sensitivity.value_of_learning({"stay": np.zeros(4096), "go": mean + 2 * drawn["x"] + drawn["y"]}, drawn)

    def closed(weight):
        return weight * norm.pdf(mean / weight) - mean * norm.cdf(-mean / weight)

    assert found.best == "go"
    assert found.now == pytest.approx(mean, abs=0.01)
    assert found.by_input["x"] == pytest.approx(closed(2), rel=0.03)
    assert found.by_input["y"] == pytest.approx(closed(1), rel=0.03)
    assert found.by_input["idle"] < 0.01
    assert found.perfect == pytest.approx(closed(np.sqrt(5)), rel=0.03)
    assert list(found.by_input) == ["x", "y", "idle"]


def test_value_of_learning_a_discrete_input():
    drawn = {"coin": draws.sample({"coin": draws.choice([0, 1], [1, 1])}, 1024)["coin"][1:]}
    found = sensitivity.value_of_learning({"a": np.where(drawn["coin"] == 1, 10.0, 0.0), "b": np.full(1024, 4.0)}, drawn)
    assert found.by_input["coin"] == pytest.approx(2.0, abs=0.01)
    with pytest.raises(InputError, match="two options"):
        sensitivity.value_of_learning({"a": np.zeros(100)}, {})


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 5), st.floats(0.5, 5))
def test_break_even_by_bisection(a, b):
    columns = {"a": np.array([a, a]), "b": np.array([b, 1e6])}
    found = sensitivity.break_even(lambda x: x["price"] * x["a"] - x["b"], "price", 0.0, 100.0, columns)
    assert found[0] == pytest.approx(b / a, rel=1e-9)
    assert np.isnan(found[1])
    with pytest.raises(InputError):
        sensitivity.break_even(lambda x: x["p"], "p", 2.0, 1.0, columns)


def test_what_must_hold_of_a_linear_model():
    """The nearest point of w.z >= t from 0 lies t / |w| away, along w."""
    inputs = dict.fromkeys("abc", NORMAL)
    weights = np.array([3.0, 2.0, 1.0])
    found = sensitivity.what_must_hold(lambda x: sum(w * x[n] for n, w in zip("abc", weights, strict=True)), inputs, 9.0)
    assert found.distance == pytest.approx(9 / np.sqrt(14), rel=0.02)
    assert found.reached >= 9.0 * (1 - 1e-9)
    assert found.chance == pytest.approx(float(ndtr(-9 / np.sqrt(14))), abs=0.003)
    assert found.alone["a"].percentile == pytest.approx(float(ndtr(3.0)), abs=5e-4)
    assert found.alone["c"].value is None
    assert found.point["a"] > found.point["b"] > found.point["c"] > 0
    assert found.central == 0


def test_what_must_hold_downwards_today_and_never():
    inputs = {"a": draws.between(2.0, 1.0, 4.0)}
    down = sensitivity.what_must_hold(lambda x: x["a"], inputs, 1.0, at_least=False)
    assert down.percentile["a"] == pytest.approx(0.1, abs=0.01)
    today = sensitivity.what_must_hold(lambda x: x["a"], inputs, 1.5)
    assert today.distance == 0
    assert today.alone["a"].value == 2.0
    with pytest.raises(Infeasible, match="reaches it: the nearest gives"):
        sensitivity.what_must_hold(lambda x: x["a"], inputs, 1e9)


def test_what_must_hold_on_a_staircase():
    inputs = dict.fromkeys("ab", NORMAL)
    found = sensitivity.what_must_hold(lambda x: np.floor(x["a"]) + np.floor(x["b"]), inputs, 2.0)
    assert found.distance == pytest.approx(np.sqrt(2), abs=0.05)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=4), st.floats(0.5, 2))
def test_shares_multiply_to_the_ratio(factors, together):
    names = [f"f{i}" for i in range(len(factors))]

    def value(on):
        product = np.prod([f for n, f in zip(names, factors, strict=True) if n in on])
        return float(product * (together if len(on) == len(names) else 1.0))

    found = sensitivity.shares_of_ratio(value, names)
    assert np.prod(list(found.values())) == pytest.approx(value(frozenset(names)) / value(frozenset()), rel=1e-9)
    if together == 1:
        assert list(found.values()) == pytest.approx(factors)


def test_models_must_return_one_finite_value_a_row():
    inputs = {"a": NORMAL}
    for model, words in ((lambda x: 1.0, "one value a row"), (lambda x: x["a"] * np.nan, "finite"), (lambda x: 0 * x["a"], "must vary")):
        with pytest.raises(InputError, match=words):
            sensitivity.sobol_indices(model, inputs, 64)
    with pytest.raises(InputError, match="power of two"):
        sensitivity.sobol_indices(lambda x: x["a"], inputs, 100)
    with pytest.raises(InputError, match="at least one that varies"):
        sensitivity.tornado(lambda x: x["a"], {"a": draws.fixed(1)})
