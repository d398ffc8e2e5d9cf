"""`chop.InContextOperator` with a model whose answer is known: the mean of the outputs it is shown."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import chop
from chop.bank.estimator import PredictedBand
from chop.bank.estimator_errors import EstimatorInputError, NotFittedError
from chop.bank.estimator_files import PARAMETERS, decoded, encoded
from chop.core.conformal import ConformalScores
from chop.core.errors import BankError, ChopError, PromptError

N, POINTS = 30, 6


@chop.from_numpy
def mean(input_coords, input_values, output_coords, output_values, query_coords, query_values, at):
    return output_values.mean(axis=1)


@pytest.fixture
def pairs():
    """Inputs at different heights, so that who is nearest is plain; outputs are their squares."""
    draw = np.random.default_rng(0)
    X = np.arange(N)[:, None] + 0.1 * draw.random((N, POINTS))
    return X, X**2


def operator(**params):
    return chop.InContextOperator(mean, "icon", **{"k": 3, **params})


def nearest_mean(X, Y, asked, k=3):
    """The mean output of the k nearest inputs, one question after the other."""
    return np.stack([Y[np.argsort(((X - one) ** 2).sum(axis=1))[:k]].mean(axis=0) for one in asked])


def test_an_answer_by_hand(pairs):
    X, Y = pairs
    asked = X[[4, 20]] + 0.3
    found = operator().fit(X, Y).predict(asked)
    assert isinstance(found, np.ndarray)
    assert found.dtype == X.dtype
    np.testing.assert_allclose(found, nearest_mean(X, Y, asked))


def test_fitting_says_what_it_is(pairs):
    X, Y = pairs
    made = operator()
    assert made.fit(X, Y) is made
    assert made.n_features_in_ == POINTS
    assert isinstance(made.bank_, chop.Bank)
    assert len(made.bank_) == N
    assert repr(made).endswith("program='icon', k=3)")
    assert made.set_params(k=2) is made
    assert made.get_params()["k"] == 2
    with pytest.raises(ValueError, match=r"Invalid parameter 'depth'.*random_state"):
        made.set_params(depth=3)


@pytest.mark.parametrize("ask", [
    lambda made: made.predict(np.zeros((2, POINTS))),
    lambda made: list(made.results(np.zeros((2, POINTS)))),
    lambda made: made.score(np.zeros((2, POINTS)), np.zeros((2, POINTS))),
    lambda made: made.error(np.zeros((2, POINTS)), np.zeros((2, POINTS))),
    lambda made: made.calibrate(),
    lambda made: made.save("nowhere"),
])  # fmt: skip
def test_asked_before_it_was_fitted(ask):
    with pytest.raises(NotFittedError, match="not fitted yet: call fit") as raised:
        ask(operator())
    assert isinstance(raised.value, ChopError | ValueError)
    assert isinstance(raised.value, AttributeError)


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize("by", ["similar", "random", "recent", "spread"])
def test_batches_do_not_matter(pairs, by, batch):
    X, Y = pairs
    asked = X[:20] + 0.2
    whole, parts = (operator(by=by, batch=size).fit(X, Y).predict(asked) for size in (1000, batch))
    np.testing.assert_array_equal(whole, parts)


def test_the_seed_is_the_random_state(pairs):
    X, Y = pairs
    found = [operator(by="random", random_state=seed).fit(X, Y).predict(X[:5]) for seed in (0, 0, 1, None)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[3])
    assert not np.array_equal(found[0], found[2])


def test_torch_in_torch_out(pairs):
    X, Y = (torch.from_numpy(part) for part in pairs)
    found = operator().fit(X, Y).predict(X[:4])
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), nearest_mean(*pairs, pairs[0][:4]))
    single = operator().fit(X.float(), Y.float()).predict(X[:4].float())
    assert single.dtype == torch.float32
    mixed = operator().fit(X.float(), pairs[1]).predict(pairs[0][:4])
    assert isinstance(mixed, np.ndarray)
    np.testing.assert_allclose(mixed, found.numpy(), rtol=1e-5)


def test_xarray_in_xarray_out(pairs):
    xarray = pytest.importorskip("xarray")
    x = np.linspace(0, 2, POINTS)
    X, Y = (xarray.DataArray(part, {"x": x}, ["sample", "x"]) for part in pairs)
    names = [f"day {i}" for i in range(4)]
    asked = X[:4].rename(sample="day").assign_coords(day=names, week=("day", [0, 0, 1, 1]))
    made = operator().fit(X, Y)
    assert made.bank_.form.axes is None or made.bank_.form.axes[0].name == "x"
    found = made.predict(asked)
    assert found.dims == ("day", "x")
    assert list(found.coords["day"].values) == names
    assert list(found.coords["week"].values) == [0, 0, 1, 1]
    np.testing.assert_array_equal(found.coords["x"], x)
    np.testing.assert_allclose(found, nearest_mean(*pairs, pairs[0][:4]))
    turned = made.predict(asked.transpose("day", "x"))
    np.testing.assert_array_equal(turned, found)
    with pytest.raises(EstimatorInputError, match="other coordinates along 'x'"):
        made.predict(asked.assign_coords(x=x + 1))
    with pytest.raises(EstimatorInputError, match="dimensions"):
        made.predict(asked.rename(x="y"))
    plain = operator().fit(*pairs).predict(asked)
    assert plain.dims == ("day", "x"), "nobody named the outputs, which lie where inputs do"


def test_grids_channels_and_names_of_outputs():
    xarray = pytest.importorskip("xarray")
    draw = np.random.default_rng(1)
    X = xarray.DataArray(draw.random((8, 3, 4)), {"y": [0.0, 1, 2], "x": [0.0, 1, 2, 3]}, ["n", "y", "x"])
    Y = xarray.concat([X, 2 * X], "c").transpose("n", "y", "x", "c")
    found = operator(k=1).fit(X, Y).predict(X)
    assert found.dims == ("n", "y", "x", "c")
    np.testing.assert_allclose(found, Y)
    flat = operator(k=1, coords=(np.arange(3.0), np.arange(4.0))).fit(X.to_numpy(), Y.to_numpy())
    assert not hasattr(flat, "n_features_in_")
    np.testing.assert_allclose(flat.predict(X.to_numpy()), Y)
    with pytest.raises(EstimatorInputError, match=r"those it was fitted on are \(3, 4\)"):
        flat.predict(X.to_numpy().transpose(0, 2, 1))
    more = flat.partial_fit(X.to_numpy()[:2] + 5, Y.to_numpy()[:2] + 5)
    np.testing.assert_allclose(more.predict(X.to_numpy()[:2] + 5), Y[:2] + 5)


def test_numbers_are_functions_at_one_point(pairs):
    X, Y = pairs
    found = operator(k=1).fit(X, Y[:, 0]).predict(X)
    np.testing.assert_array_equal(found, Y[:, 0])
    np.testing.assert_array_equal(operator(k=1).fit(X, Y[:, :1]).predict(X), Y[:, :1])


def test_partial_fit_is_fit_on_all(pairs):
    X, Y = pairs
    times = np.arange(N)
    for when in (False, True):
        given = [{"times": times[part]} if when else {} for part in (slice(N), slice(10), slice(10, N))]
        whole = operator().fit(X, Y, **given[0])
        parts = operator().partial_fit(X[:10], Y[:10], **given[1]).partial_fit(X[10:], Y[10:], **given[2])
        np.testing.assert_array_equal(whole.predict(X[::3]), parts.predict(X[::3]))
        assert len(parts.bank_) == N
    with pytest.raises(ValueError, match="give the times"):
        parts.partial_fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but InContextOperator is expecting 6 features"):
        parts.partial_fit(X[:, :2], Y)


def test_nothing_later_is_shown(pairs):
    X, Y = pairs
    made = operator(k=1).fit(X, Y, times=np.arange(N), known=np.arange(N) + 2)
    found = made.predict(X[[20, 20]] + 0.01, times=[21, 22])
    np.testing.assert_array_equal(found, Y[[19, 20]])
    np.testing.assert_array_equal(made.predict(X[[20]], times=12), Y[[10]])
    with pytest.raises(ValueError, match="needed; ask for fewer, or later"):
        made.predict(X[:1], times=1)
    with pytest.raises(ValueError, match="has no times"):
        operator().fit(X, Y).predict(X, times=3)


def test_gaps(pairs):
    X, Y = pairs
    Y = Y.copy()
    Y[3, 2] = np.nan
    with pytest.raises(PromptError, match='has 1 NaN; write mask="nan"'):
        operator().fit(X, Y)
    made = operator().fit(X, Y, mask="nan")
    assert int((~made.bank_.take([3]).outputs.observed).sum()) == 1
    more = operator().fit(X[:3], Y[:3]).partial_fit(X[3:], Y[3:], mask="nan")
    assert int((~more.bank_.take([3]).outputs.observed).sum()) == 1
    seen = np.isfinite(Y)
    told = operator().fit(X[:3], Y[:3]).partial_fit(X[3:], np.nan_to_num(Y[3:]), mask=seen[3:])
    assert int((~told.bank_.take([3]).outputs.observed).sum()) == 1
    with pytest.raises(ValueError, match="does not fit functions at 6 points"):
        told.partial_fit(X[3:], np.nan_to_num(Y[3:]), mask=seen[3:, :2])
    both = {"inputs": np.ones_like(seen[3:]), "outputs": seen[3:]}
    told.partial_fit(X[3:], np.nan_to_num(Y[3:]), mask=both)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X[:, :4], "X has 4 features, but InContextOperator is expecting 6 features"),
        (lambda X: X[0], "Reshape your data to"),
        (lambda X: np.where(X > 9, np.nan, X), "NaN or inf"),
        (lambda X: X * 1j, "Complex data not supported"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: [["a"] * POINTS], "cannot be read as numbers"),
        (lambda X: np.stack([X] * 3, axis=-1), "holds functions"),
    ],
)
def test_what_cannot_be_asked(pairs, change, words):
    made = operator().fit(*pairs)
    with pytest.raises(PromptError, match=words) as raised:
        made.predict(change(pairs[0]))
    assert isinstance(raised.value, ValueError)


def test_what_cannot_be_fitted(pairs, tmp_path):
    X, Y = pairs
    for given, words in (
        ((X, Y[:4]), "X has 30 functions, but Y has 4"),
        ((X, None), "requires y to be passed"),
        ((X, Y[:, :4]), "do not fit together"),
        ((chop.Bank(X, Y), Y), "brings its outputs"),
    ):
        with pytest.raises(PromptError, match=words):
            operator().fit(*given)
    with pytest.raises(ChopError):
        operator().fit(tmp_path / "nowhere")
    with pytest.raises(ChopError, match="there is no network 'nobody'"):
        chop.InContextOperator("nobody").fit(X, Y)
    with pytest.raises(ChopError, match="column"):
        chop.InContextOperator(mean, "icon |").fit(X, Y)
    with pytest.raises(ValueError, match="batch is how many"):
        operator(batch=0).fit(X, Y).predict(X)
    with pytest.raises(ValueError, match="k must be 1 or more"):
        operator(k=0).fit(X, Y).predict(X)


def test_a_failed_fit_leaves_it_unfitted(pairs):
    made = operator().fit(*pairs)
    with pytest.raises(PromptError):
        made.fit(pairs[0], pairs[1][:, :4])
    with pytest.raises(NotFittedError):
        made.predict(pairs[0])


def test_scores_by_hand(pairs):
    X, Y = pairs
    made = operator().fit(X[::2], Y[::2])
    found, truth = nearest_mean(X[::2], Y[::2], X[1::2]), Y[1::2]
    each = 1 - ((truth - found) ** 2).sum(axis=0) / ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    assert made.score(X[1::2], truth) == pytest.approx(each.mean())
    relative = np.linalg.norm(found - truth, axis=1) / np.linalg.norm(truth, axis=1)
    assert made.error(X[1::2], truth) == pytest.approx(relative.mean())
    assert np.isnan(made.score(X[:1], Y[:1]))
    constant = operator(k=1).fit(X, np.ones_like(Y))
    assert constant.score(X, np.ones_like(Y)) == 1
    assert constant.score(X, np.zeros_like(Y)) == 0
    with pytest.raises(ValueError, match="X has 30 functions, but Y has 2"):
        made.score(X, Y[:2])


def test_bands_lie_around_answers(pairs):
    X, Y = pairs
    asked = np.concatenate([X[4:9], X[12:15]]) + 0.25
    made = operator(k=5, batch=3).fit(X, Y)
    found = made.predict(asked, band=0.8)
    assert isinstance(found, PredictedBand)
    np.testing.assert_array_equal(found.values, made.predict(asked))
    assert (found.lower < found.values).all()
    assert (found.values < found.upper).all()
    wider = made.predict(asked, band=0.95)
    assert (wider.upper - wider.lower > found.upper - found.lower).all()
    result = next(iter(made.results(asked)))
    assert len(result.values) == 3
    assert result.traced
    edges = result.band(0.8)
    np.testing.assert_array_equal(found.lower[:3], edges.lower[..., 0].numpy())
    assert result.trust(0.5).probability.shape == (3,)
    torched = made.predict(torch.from_numpy(asked), band=0.8)
    assert all(isinstance(part, torch.Tensor) for part in torched)


class _Calibration:
    """What a calibration has, without asking anything."""

    def __init__(self, program, scores):
        self.program, self.scores = program, scores


def test_a_calibration_says_program_and_bands(pairs):
    X, Y = pairs
    made = operator(k=5).fit(X, Y)
    runs = list(made.results(X[:20] + 0.25))
    truth = torch.from_numpy((X[:20] + 0.25) ** 2)[..., None]
    scores = ConformalScores.of(runs, truth)
    made.calibration_ = _Calibration(chop.parse("mean_output"), scores)
    found = made.predict(X[:4] + 0.25, band=0.8)
    expected = next(iter(made.results(X[:4] + 0.25))).band(0.8)
    assert "calibration questions" in expected.how
    np.testing.assert_array_equal(found.upper, expected.upper[..., 0].numpy())
    assert not hasattr(made.fit(X, Y), "calibration_"), "another bank, another calibration"


def test_calibrated_on_its_own_pairs(tmp_path):
    draw = np.random.default_rng(3)
    X = draw.random((80, POINTS))
    asked, truth = (X[:30] + 0.02), (X[:30] + 0.02) ** 2
    made = chop.InContextOperator(mean, "weigh(icon, nearest_output)", k=4).fit(X, X**2)
    assert made.calibrate(questions=40) is made
    assert made.calibration_.questions == 40
    result = next(iter(made.results(asked)))
    assert result.program == str(made.calibration_.program)
    found = made.predict(asked, band=0.8)
    assert ((found.lower <= truth) & (truth <= found.upper)).mean() > 0.7
    again = chop.InContextOperator.load(made.save(tmp_path / "made"), model=mean)
    for ours, theirs in zip(found, again.predict(asked, band=0.8), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not hasattr(made.fit(X, X), "calibration_")


def test_a_bank_in_place_of_arrays(pairs, tmp_path):
    X, Y = pairs
    bank = chop.Bank(X, Y)
    made = operator().fit(bank)
    assert made.bank_ is bank
    assert made.n_features_in_ == POINTS
    expected = operator().fit(X, Y).predict(X[:4])
    np.testing.assert_array_equal(made.predict(X[:4]), expected)
    with chop.Bank.create(tmp_path / "bank", bank.take(range(N))):
        pass
    stored = operator().fit(tmp_path / "bank")
    np.testing.assert_array_equal(stored.predict(X[:4]), expected)
    stored.partial_fit(X[:1] + 100, Y[:1]).partial_fit(X[:1] + 200, Y[:1])
    stored.bank_.close()
    with chop.Bank.open(tmp_path / "bank") as again:
        assert len(again) == N + 2


def test_saved_and_loaded(pairs, tmp_path):
    X, Y = pairs
    params = {
        "coords": {"x": np.linspace(0, 1, POINTS)}, "axes": [chop.Axis("x", 1.25)], "by": "spread",
        "batch": 5,
        "graph": chop.Graph(np.array([[0, 1], [1, 2]]), POINTS),
    }  # fmt: skip
    made = operator(**params).fit(X, Y, times=np.arange(N))
    folder = made.save(tmp_path / "made")
    with pytest.raises(BankError, match="give it with load"):
        chop.InContextOperator.load(folder)
    again = chop.InContextOperator.load(folder, model=mean)
    np.testing.assert_array_equal(again.predict(X[:7], times=25), made.predict(X[:7], times=25))
    assert again.n_features_in_ == POINTS
    assert {
        name: repr(value) for name, value in again.get_params().items() if name not in ("model", "graph")
    } == {name: repr(value) for name, value in made.get_params().items() if name not in ("model", "graph")}
    assert torch.equal(again.graph.edges, made.graph.edges)
    with pytest.raises(BankError, match="exists already"):
        made.save(folder)
    again.partial_fit(X[:1] + 50, Y[:1] + 50, times=[N])
    again.bank_.close()
    assert len(chop.InContextOperator.load(folder, model=mean).bank_) == N + 1
    assert [path.name for path in tmp_path.iterdir()] == ["made"], "nothing is left beside it"


def test_saved_with_the_name_of_a_model(pairs, tmp_path):
    X = np.random.default_rng(0).random((8, 20)).astype(np.float32)
    made = chop.InContextOperator("conservation", "icon", axes=chop.Axis("x", 1.0)).fit(X, X)
    again = chop.InContextOperator.load(made.save(tmp_path / "made"))
    assert again.model == "conservation"
    np.testing.assert_array_equal(again.predict(X[:2]), made.predict(X[:2]))


def test_labelled_arrays_are_remembered(pairs, tmp_path):
    xarray = pytest.importorskip("xarray")
    X, Y = (xarray.DataArray(part, {"x": np.arange(POINTS)}, ["sample", "x"]) for part in pairs)
    made = operator().fit(X, Y)
    again = chop.InContextOperator.load(made.save(tmp_path / "made"), model=mean)
    xarray.testing.assert_identical(again.predict(X[:3]), made.predict(X[:3]))


@pytest.mark.parametrize("change", [
    lambda content: [],
    lambda content: {**content, "format": "other"},
    lambda content: {**content, "params": {}},
    lambda content: {**content, "params": {**content["params"], "coords": {"array": [1], "dtype": "O"}}},
    lambda content: {**content, "inputs": {"shape": 3}},
    lambda content: {**content, "params": {**content["params"], "axes": {"odd": 1}}},
])  # fmt: skip
def test_odd_files_are_one_sentence(pairs, tmp_path, change):
    folder = operator().fit(*pairs).save(tmp_path / "made")
    file = folder / PARAMETERS
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(ChopError):
        chop.InContextOperator.load(folder, model=mean)
    file.write_bytes(b"\xff{")
    with pytest.raises(ChopError, match="cannot be read"):
        chop.InContextOperator.load(folder, model=mean)
    with pytest.raises(ChopError, match="holds no operator"):
        chop.InContextOperator.load(tmp_path, model=mean)


def test_what_cannot_be_saved_leaves_nothing(pairs, tmp_path):
    made = operator().fit(*pairs)
    made.axes = object()
    with pytest.raises(BankError, match="the parameter axes cannot be saved"):
        made.save(tmp_path / "made")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [
    None, 3, 0.5, "x", np.int64(4), ("a", "b"), [chop.Axis("x"), "y"], chop.Axis("t", 2.0),
    {"y": np.arange(3.0), "x": [1, 2]}, (np.arange(3.0), np.arange(2)), np.eye(2, dtype=np.float32),
    np.array(["2024-01-01"], dtype="datetime64[ns]"),
])  # fmt: skip
def test_parameters_there_and_back(value):
    found = decoded(json.loads(json.dumps(encoded(value, "value"))))
    assert repr(found) == repr(value.item() if isinstance(value, np.integer) else value)


def test_scikit_learn_is_not_needed():
    code = (
        "import sys, numpy as np, chop\n"
        "made = chop.InContextOperator(chop.from_numpy(lambda *a: a[3].mean(axis=1)), 'icon', k=2)\n"
        "made.fit(np.eye(4), np.eye(4)).score(np.eye(4), np.eye(4))\n"
        "made.get_params(), made.set_params(k=1), repr(made)\n"
        "assert not any(name.startswith('sklearn') for name in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
