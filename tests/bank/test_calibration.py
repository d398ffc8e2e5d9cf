"""Evidence from past questions: what candidates earn, bands, files, and weights that go on learning."""

import json

import numpy as np
import pytest
import torch

import chop
from chop.bank.calibrating import asked_rows
from chop.bank.calibration import Calibration
from chop.bank.candidates import candidates_of
from chop.core.errors import BankError
from chop.core.text import parse

POINTS = 12


@chop.from_numpy
def halves(input_coords, input_values, output_coords, output_values, query_coords, query_values, at):
    """A model that knows the operator, up to a factor."""
    return 0.5 * query_values


def pairs(number, seed=0, noise=0.02):
    """y = 0.9 x, with noise that differs from channel to channel."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((number, POINTS, 2))
    return x, 0.9 * x + noise * draw.standard_normal(x.shape) * np.array([1.0, 4.0])


def bank(number=80, **options):
    return chop.Bank(*pairs(number, **options), coords=np.arange(POINTS) / POINTS, times=np.arange(number))


@pytest.fixture(scope="module")
def calibrated():
    return bank().calibrate("weigh(icon, copy_query, mean_output)", halves, questions=60)


def test_the_candidates_that_earn_it_get_the_weight(calibrated):
    weights = calibrated.weights.numpy()
    # 0.2 of half the query and 0.8 of it is 0.9 of it: the best mixture by hand
    np.testing.assert_allclose(weights, [[0.2, 0.8, 0.0], [0.2, 0.8, 0.0]], atol=0.05)
    assert [str(one) for one in calibrated.candidates] == ["icon", "copy_query", "mean_output"]
    assert float(calibrated.gain.min()) > 0.5
    np.testing.assert_allclose(calibrated.errors[:, 0].numpy(), 1)
    assert float(calibrated.errors[0, 1]) == pytest.approx(0.1 / 0.4, rel=0.1)


def test_its_program_is_plain_text_that_answers(calibrated):
    assert str(parse(str(calibrated.program))) == str(calibrated.program)
    x, y = pairs(20, seed=1)
    prompt = bank().prompts(x)
    result = calibrated.run(halves, prompt)
    assert float((result.values - torch.tensor(y)).abs().mean()) < 0.1
    inside = result.band(0.8).covers(torch.tensor(y)).double().mean()
    assert 0.7 < float(inside) < 0.9
    assert "cross-conformal" in result.band(0.8).how


def test_without_the_examples_no_question_is_held_out():
    found = bank().calibrate("weigh(icon, copy_query)", halves, questions=40, examples=False)
    assert str(found.program).startswith("average(")
    assert found.program.calls(examples=5) == 1
    x, y = pairs(20, seed=1)
    inside = found.run(halves, bank().prompts(x)).band(0.8).covers(torch.tensor(y))
    assert 0.65 < float(inside.double().mean()) < 0.95


def test_the_bare_model_stays_where_nothing_is_better():
    @chop.from_numpy
    def knows(input_coords, input_values, output_coords, output_values, query_coords, query_values, at):
        return 0.9 * query_values

    found = bank().calibrate("weigh(icon, mean_output, nearest_output)", knows, questions=40, examples=False)
    assert str(found.program) == "icon"
    np.testing.assert_allclose(found.weights[:, 0].numpy(), 1, atol=0.01)


def test_files_bring_everything_back(calibrated, tmp_path):
    path = calibrated.save(tmp_path / "calibration.json")
    again = Calibration.load(path)
    assert str(again.program) == str(calibrated.program)
    assert again.scores == calibrated.scores
    assert again.to_dict() == calibrated.to_dict()
    content = json.loads(path.read_text())
    assert content["candidates"][1]["program"] == "copy_query"
    assert len(content["candidates"][1]["weights"]) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(format="other"), "no calibration"),
        (lambda c: c.pop("kept"), "no calibration"),
        (lambda c: c["candidates"][0].update(program="nobody(icon)"), "no calibration"),
        (lambda c: c["candidates"].pop(), "do not fit"),
        (lambda c: c["bands"].update(units="wide"), "no calibration"),
        (lambda c: c["candidates"][0].update(weights=[1.0]), "do not fit"),
    ],
)
def test_damaged_files_are_told_about(calibrated, tmp_path, change, words):
    content = calibrated.to_dict()
    content = json.loads(json.dumps(content))
    change(content)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BankError, match=words):
        Calibration.load(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(BankError, match="cannot be read"):
        Calibration.load(tmp_path / "absent.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(BankError, match="not JSON"):
        Calibration.load(tmp_path / "text.json")


def test_weights_go_on_learning(calibrated):
    """From now on y = 0.5 x: the bare model is right."""
    x = np.random.default_rng(5).standard_normal((150, POINTS, 2))
    prompt = bank().prompts(x)
    later = calibrated.after(halves, prompt, torch.tensor(0.5 * x))
    assert later.learnt.outcomes == 150
    assert float(later.weights[:, 0].min()) > 0.9
    assert float(calibrated.weights[:, 0].max()) < 0.3  # what was there is as it was
    assert str(later.program).startswith("weigh(icon")


def test_what_was_not_observed_teaches_nothing(calibrated):
    x = np.ones((3, POINTS, 2))
    unseen = torch.zeros(3, POINTS, 2, dtype=torch.bool)
    later = calibrated.after(halves, bank().prompts(x), torch.tensor(0.5 * x), unseen)
    torch.testing.assert_close(later.weights, calibrated.weights, atol=1e-4, rtol=0)


def test_only_the_past_is_asked_and_shown():
    seen = []

    @chop.from_numpy
    def spies(input_coords, input_values, output_coords, output_values, query_coords, query_values, at):
        seen.append((input_values[..., 0, 0].max(axis=1), query_values[..., 0, 0]))
        return query_values

    x = np.repeat(np.arange(60.0)[:, None], POINTS, axis=1)
    record = chop.Bank(x, x, coords=np.arange(POINTS) / POINTS, times=np.arange(60), known=np.arange(60) + 3)
    record.calibrate("icon", spies, questions=40, examples=False)
    assert sum(len(asked) for _, asked in seen) >= 40
    for shown, asked in seen:
        assert (shown + 3 <= asked).all()


def test_questions_that_resemble_some_queries():
    record = bank(200)
    like = pairs(200)[0][[10, 60, 120]]
    rows = asked_rows(record, 30, 5, record.prompts(like).query, None, 0).tolist()
    assert {10, 60, 120} <= set(rows)
    assert rows == sorted(rows)
    found = record.calibrate("icon", halves, questions=30, like=like, examples=False)
    assert found.questions == 30


def test_a_calibration_goes_on_after_it_was_stopped(tmp_path):
    calls = []

    def stops(done, total):
        calls.append(done)
        if len(calls) == 2:
            raise KeyboardInterrupt

    record = bank()
    with pytest.raises(KeyboardInterrupt):
        record.calibrate("weigh(icon, copy_query)", halves, questions=60, folder=tmp_path, progress=stops)
    assert len(list(tmp_path.glob("*.npz"))) == 2
    whole = record.calibrate("weigh(icon, copy_query)", halves, questions=60, folder=tmp_path)
    plain = record.calibrate("weigh(icon, copy_query)", halves, questions=60)
    assert whole.to_dict() == plain.to_dict()
    damaged = next(iter(tmp_path.glob("*.npz")))
    damaged.write_bytes(b"nothing")
    again = record.calibrate("weigh(icon, copy_query)", halves, questions=60, folder=tmp_path)
    assert again.to_dict() == plain.to_dict()


def test_too_little_to_calibrate_on():
    with pytest.raises(BankError, match="12 pairs are needed"):
        bank(10).calibrate("icon", halves)


def test_candidates_of_programs():
    prompt = bank().prompts(pairs(4)[0])
    for text, expected in {
        "average(last_frame, icon)": ["icon", "last_frame"],
        "select(correct(icon), icon)": ["icon", "correct(icon)"],
        "combine(icon, mean_output) | nonnegative": [
            "icon",
            "icon | nonnegative",
            "mean_output | nonnegative",
        ],
        "rescale | icon": ["icon", "rescale | icon"],
    }.items():
        assert [str(one) for one in candidates_of(parse(text), halves, prompt)] == expected
    from_auto = [str(one) for one in candidates_of(parse("auto(budget=12)"), halves, prompt)]
    assert from_auto[0] == "icon"
    assert {"mean_output", "last_frame"} <= set(from_auto)


def test_an_operator_that_is_calibrated_learns_as_truth_arrives():
    x, y = pairs(60)
    made = chop.InContextOperator(halves, "weigh(icon, copy_query)", coords=np.arange(POINTS) / POINTS)
    made.fit(x, y).calibrate(questions=40)
    before = made.calibration_.weights
    new = np.random.default_rng(9).standard_normal((40, POINTS, 2))
    made.partial_fit(new, 0.5 * new)
    assert made.calibration_.learnt.outcomes == 40
    assert float(made.calibration_.weights[0, 0]) > float(before[0, 0])
    assert len(made.bank_) == 100
