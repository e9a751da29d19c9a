"""Load, pools, links, waiting and speed through the questions: handed cases by their id, closed forms, and what is refused."""

import math

import pytest

from planner.errors import Infeasible, InputError
from planner.questions import all_questions, check
from planner.shapes import Layout

ASK = all_questions()

HANDED = [
    ("PD01", "prefill_share", {"prefill_ms": 58, "decode_ms": 2200}, 2.56864482, "%", 1e-4),
    ("PD02", "pool_split", {"gpus": 72, "prefill_tps": 20000, "decode_tps": 2000, "isl": 8000, "osl": 1000}, 32, "GPUs", 0),
    ("PD04", "kv_transfer_load", {"req_s": 80, "isl": 8000, "kv_bytes": 70272, "link_gbps": 400}, 89.94816, "%", 1e-6),
    ("PD05", "pool_split", {"req_s": 80, "isl": 8000, "prefix_hit": 0.5, "prefill_tps": 20000}, 16, "GPUs", 0),
    ("SV01", "requests_in_flight", {"req_s": 80, "ttft_s": 0.4, "osl": 1000, "tpot_s": 0.025}, 2030.0, "requests", 1e-9),
    ("SV03", "tokens_per_s_per_user", {"tpot_ms": 29.47, "tps_per_gpu": 95.14}, 33.932813, "tok/s/user", 1e-4),
    ("SV05", "gpus_for_load", {"p95_tps": 1200000, "tps_per_gpu": 10000, "target_utilisation": 0.7}, 172, "GPUs", 0),
]


@pytest.mark.parametrize(("case", "question", "inputs", "right", "unit", "rtol"), HANDED, ids=[h[0] for h in HANDED])
def test_handed_cases(case, question, inputs, right, unit, rtol):
    outcome = check.run(check.Case(case, question, inputs, right, unit, rtol))
    assert outcome.status == "ok", outcome


def test_sv05_in_whole_racks():
    inputs = {"p95_tps": 1200000, "tps_per_gpu": 10000, "target_utilisation": 0.7, "gpus_per_rack": 72, "quantity": "racks"}
    assert ASK["gpus_for_load"].ask(inputs).value == 3


def test_pd02_other_half_and_hits():
    base = {"gpus": 72, "prefill_tps": 20000, "decode_tps": 2000, "isl": 8000, "osl": 1000}
    assert ASK["pool_split"].ask({**base, "quantity": "decode"}).value == 40
    assert ASK["pool_split"].ask({**base, "quantity": "requests_per_s"}).value == pytest.approx(80)
    half = max(range(1, 72), key=lambda g: min(g / 0.2, (72 - g) / 0.5))  # the best of all splits
    assert ASK["pool_split"].ask({**base, "prefix_hit": 0.5}).value == half == 21


def test_sl06_contradictory_layout_is_refused_with_both_products():
    with pytest.raises(InputError, match=r"4 x 2 = 8.*1 x 4 = 4"):
        Layout(tp=4, dp=2, moe_tp=1, ep=4)


def test_waits_of_the_textbook():
    one = ASK["queue_wait"].ask({"requests_per_s": 5, "service_ms": 100})
    assert one.value == pytest.approx(0.1)  # rho S / (1 - rho)
    assert one.low == one.value == one.high
    constant = ASK["queue_wait"].ask({"requests_per_s": 5, "service_ms": 100, "cv2": 0})
    assert constant.value == pytest.approx(0.05, rel=1e-4)
    assert constant.low < constant.value < constant.high
    tail = ASK["queue_wait"].ask({"requests_per_s": 5, "service_s": "100 ms", "quantile": 0.99})
    assert tail.value == pytest.approx(0.2 * math.log(50))
    first = ASK["queue_wait"].ask({"requests_per_s": 5, "service_s": 0.1, "quantile": 0.99, "quantity": "ttft", "fixed_s": 0.03})
    assert first.value == pytest.approx(0.2 * math.log(100) + 0.03)


def test_fewest_workers_keep_the_limit():
    asked = {"requests_per_s": 80, "input_tokens": 8000, "prefill_tokens_per_s": 20000, "cv2": 0.5, "ttft_s": 2.0, "quantile": 0.99}
    found = ASK["workers_for_ttft"].ask(asked)
    times = [ASK["queue_wait"].ask({**{k: v for k, v in asked.items() if k != "ttft_s"}, "workers": w, "quantity": "ttft"}).value
             for w in (int(found.value) - 1, int(found.value))]
    assert times[1] <= 2.0 < times[0]
    with pytest.raises(Infeasible, match="a prompt alone takes"):
        ASK["workers_for_ttft"].ask({**asked, "ttft_s": 0.4})


WORKER = {"step_ms": 20, "step_s_per_request_ms": 0.2, "slots": 64, "output_tokens": 201}


def test_one_worker_at_a_rate_and_at_a_concurrency():
    top = ASK["worker_under_load"].ask({**WORKER, "quantity": "highest_requests_per_s"}).value
    assert top == pytest.approx(64 / (200 * (0.02 + 64 * 0.0002)))
    slow, busy = (ASK["worker_under_load"].ask({**WORKER, "requests_per_s": x * top}).value for x in (0.05, 0.9))
    assert 0.0202 < slow < busy < 0.02 + 64 * 0.0002
    alone = ASK["worker_under_load"].ask({**WORKER, "concurrency": 1})
    assert alone.value == pytest.approx(0.0202)
    rate = ASK["worker_under_load"].ask({**WORKER, "concurrency": 64, "quantity": "requests_per_s"}).value
    assert rate == pytest.approx(top, rel=0.02)
    together = {**WORKER, "input_tokens": 2000, "prefill_tokens_per_s": 50000, "chunk_tokens": 2048, "requests_per_s": 4}
    ttft, tail, e2e = (ASK["worker_under_load"].ask({**together, **more}).value
                       for more in ({"quantity": "ttft"}, {"quantity": "ttft", "quantile": 0.99}, {"quantity": "e2e"}))
    assert 0.04 < ttft < tail < e2e


@pytest.mark.parametrize(("question", "inputs", "words"), [
    ("worker_under_load", {**WORKER, "requests_per_s": 50}, "below 9.756"),
    ("queue_wait", {"requests_per_s": 50, "service_s": 0.1, "workers": 4}, "at least 6 workers"),
])
def test_overload_has_the_nearest_load_that_works(question, inputs, words):
    with pytest.raises(Infeasible, match=words):
        ASK[question].ask(inputs)


@pytest.mark.parametrize(("question", "inputs", "field"), [
    ("requests_in_flight", {"requests_per_s": -1, "ttft_s": 1, "tpot_s": 1, "output_tokens": 10}, "rate_per_s"),
    ("requests_in_flight", {"requests_per_s": 1, "ttft_s": 1, "tpot_s": 1, "output_tokens": 0}, "output_tokens"),
    ("requests_in_flight", {"requests_per_s": float("nan"), "ttft_s": 1, "tpot_s": 1, "output_tokens": 10}, "rate_per_s"),
    ("requests_in_flight", {"ttft_s": 1, "tpot_s": 1, "output_tokens": 10}, "requests_per_s"),
    ("gpus_for_load", {"tokens_per_s": 1e6, "tps_per_gpu": 1e4, "utilisation": 70}, "utilisation_fraction"),
    ("gpus_for_load", {"tokens_per_s": 1e6, "tps_per_gpu": True, "utilisation": 0.7}, "tokens_per_s_per_gpu"),
    ("prefill_share", {"prefill_ms": 0, "decode_ms": 0}, "decode_seconds"),
    ("pool_split", {"gpus": 72, "prefill_gpus": 32, "decode_gpus": 32, "prefill_tps": 1, "decode_tps": 1, "isl": 1, "osl": 1}, "gpus"),
    ("pool_split", {"gpus": 71, "gpus_per_worker": 8, "prefill_tps": 1, "decode_tps": 1, "isl": 1, "osl": 1}, "gpus"),
    ("kv_transfer_load", {"req_s": 1, "isl": 1, "kv_bytes": 1, "link_gbps": 400, "links": 0}, "num_links"),
    ("worker_under_load", {**WORKER, "requests_per_s": 1, "concurrency": 5}, "requests_per_s"),
    ("worker_under_load", {**WORKER, "requests_per_s": 1, "quantity": "ttft"}, "quantity"),
    ("worker_under_load", {**WORKER, "output_tokens": 1, "requests_per_s": 1}, "output_tokens"),
    ("worker_under_load", {**WORKER, "concurrency": 5, "quantile": 0.99}, "quantile"),
    ("queue_wait", {"requests_per_s": 1, "input_tokens": 100, "prefill_tokens_per_s": 1000}, "cv2"),
    ("queue_wait", {"requests_per_s": 1, "service_s": 0.1, "quantile": 99}, "quantile"),
])
def test_wrong_values_are_refused_by_name(question, inputs, field):
    with pytest.raises(InputError) as caught:
        ASK[question].ask(inputs)
    assert caught.value.field.endswith(field)
