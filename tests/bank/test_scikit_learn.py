"""`chop.InContextOperator` in the hands of scikit-learn: its tools work with it, and its checks hold."""

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError as TheirNotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import chop
from chop.bank.estimator_errors import NotFittedError

EXPECTED = {
    "check_estimators_unfitted": "wants scikit-learn's own NotFittedError; ours is of the same kinds",
    "check_n_features_in_after_fitting": "calls score(X, y=...); outputs are functions and are called Y",
    "check_dtype_object": "wants a TypeError for a dict in an array; what a user can cause is a ChopError",
    "check_regressor_multioutput": "takes 5 numbers for an output of 10 points: other points need out_coords",
}  # fmt: skip


def mean(input_coords, input_values, output_coords, output_values, query_coords, query_values, at):
    return output_values.mean(axis=1)


def operator(**params):
    return chop.InContextOperator(chop.from_numpy(mean), "icon", **{"k": 2, **params})


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # it is no BaseEstimator, and need not be
    every_check = parametrize_with_checks([operator()], expected_failed_checks=lambda estimator: EXPECTED)


@every_check
@pytest.mark.filterwarnings("ignore")
def test_what_scikit_learn_checks(estimator, check):
    check(estimator)


def test_what_is_left_of_the_checks_that_fail():
    X = np.random.default_rng(0).random((15, 4))
    with pytest.raises(NotFittedError) as raised:
        operator().predict(X)
    assert {ValueError, AttributeError} <= set(type(raised.value).__mro__) & set(TheirNotFittedError.__mro__)
    made = operator().fit(X, X)
    for ask in (lambda: made.score(X[:, [1]], X), lambda: made.partial_fit(X[:, [1]], X)):
        with pytest.raises(
            ValueError, match="X has 1 features, but InContextOperator is expecting 4 features"
        ):
            ask()


@pytest.fixture(scope="module")
def pairs():
    X = np.random.default_rng(0).random((40, 6))
    return X, X**2


def test_clones_are_unfitted_and_share_the_model(pairs):
    made = operator(coords=np.linspace(0, 1, 6)).fit(*pairs)
    check_is_fitted(made)
    other = clone(made)
    assert other.model is made.model
    assert other.coords is made.coords
    with pytest.raises(TheirNotFittedError):
        check_is_fitted(other)
    assert is_regressor(made)


def test_a_pipeline(pairs):
    X, Y = pairs
    scale = StandardScaler().fit(X[:30])
    whole = Pipeline([("scale", StandardScaler()), ("op", operator())]).fit(X[:30], Y[:30])
    alone = operator().fit(scale.transform(X[:30]), Y[:30])
    np.testing.assert_array_equal(whole.predict(X[30:]), alone.predict(scale.transform(X[30:])))
    assert whole.score(X[30:], Y[30:]) == pytest.approx(r2_score(Y[30:], whole.predict(X[30:])))
    assert whole.set_params(op__k=4).named_steps["op"].k == 4


def test_cross_validation_and_a_search_over_k(pairs):
    X, Y = pairs
    scores = cross_val_score(operator(), X, Y, cv=4)
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()
    search = GridSearchCV(operator(), {"k": [1, 3, 20], "by": ["similar", "random"]}, cv=3).fit(X, Y)
    assert search.best_params_["by"] == "similar"
    assert search.best_estimator_.predict(X[:2]).shape == (2, 6)
    assert "InContextOperator" in repr(search)
