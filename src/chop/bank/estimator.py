"""A frozen model, a program and a bank of pairs with the interface of scikit-learn's regressors.

scikit-learn is not needed: what it asks of an estimator are methods, and its own names are imported only when
it asks for them.
"""

# ruff: noqa: N803 - X and Y are what estimators call them

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from chop.bank.bank import EXAMPLES, Bank
from chop.bank.choosing import By
from chop.bank.containers import (
    ArrayLayout,
    as_functions,
    check_finite,
    in_dtype,
    in_layout,
    like,
    mask_in_layout,
    plain_array,
)
from chop.bank.estimator_errors import EstimatorInputError, NotFittedError, as_value_errors
from chop.bank.estimator_parameters import NamedParameters
from chop.bank.pairs import Pairs
from chop.core import metrics
from chop.core.fields import ArrayLike, Axis, Graph
from chop.core.model import FrozenModel
from chop.core.program import Program
from chop.core.prompt import Coordinates
from chop.core.running import Result
from chop.core.text import program_of

if TYPE_CHECKING:
    from chop.bank.calibration import Calibration

BATCH = 64
"""Questions that are asked together."""
_FITTED = ("bank_", "model_", "calibration_", "n_features_in_", "_inputs", "_outputs", "_path")
"""What fitting leaves behind."""


class PredictedBand(NamedTuple):
    """Answers and where the truth should lie, in arrays of one kind."""

    values: Any
    lower: Any
    upper: Any


class InContextOperator(NamedParameters):
    """An operator learned from pairs without training: a frozen model, a program, and a bank of examples.

    The interface is that of scikit-learn's regressors, of functions instead of numbers: ``fit`` keeps pairs
    in a bank, ``predict`` shows each question some of them and asks the model through the program.

    Args:
        model: a bundled network by its name, a ``.safetensors`` file, or any frozen model
        program: a program, its text, or its name in `chop.programs`
        k: pairs that each question is shown
        by: which ones: "similar", "random", "recent" or "spread" (`chop.Bank.examples`)
        coords, out_coords, axes, graph: where functions are given, and what that means (`chop.Bank`)
        batch: questions that are asked together, which bounds memory
        random_state: the seed of "random"
    """

    _estimator_type = "regressor"

    def __init__(
        self,
        model: FrozenModel | str | Path,
        program: Program | str = "auto",
        k: int = EXAMPLES,
        by: By = "similar",
        *,
        coords: Coordinates | None = None,
        out_coords: Coordinates | None = None,
        axes: Sequence[Axis | str] | Axis | str | None = None,
        graph: Graph | ArrayLike | None = None,
        batch: int = BATCH,
        random_state: int | None = 0,
    ) -> None:
        self.model = model
        self.program = program
        self.k = k
        self.by = by
        self.coords = coords
        self.out_coords = out_coords
        self.axes = axes
        self.graph = graph
        self.batch = batch
        self.random_state = random_state

    # What scikit-learn asks of every estimator

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True, multi_output=True),
            regressor_tags=RegressorTags(poor_score=True),  # of functions: a table's columns are no points
            input_tags=InputTags(two_d_array=True, three_d_array=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bank_")

    # Pairs

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        times: ArrayLike | None = None,
        known: ArrayLike | None = None,
        mask: Any = None,
    ) -> Self:
        """Keep pairs: inputs X and outputs Y in a bank; nothing is trained.

        Args:
            X: N functions, ``(N, n)``, ``(N, n, c)`` or grids, numpy's, torch's or xarray's; or a
                `chop.Bank`, or the folder of one, without Y
            Y: what became of them; N numbers are functions at one point
            times: when each input was there, whole numbers; then questions at a time are shown no later pairs
            known: when each output was there; as soon as its input if left out
            mask: where outputs were observed, as in `chop.Bank`
        """
        self._forget()
        model = self._loaded()
        self._program()  # a text that is no program is said now
        if isinstance(X, Bank | str | Path):
            if Y is not None or times is not None or known is not None or mask is not None:
                raise EstimatorInputError("a bank brings its outputs and times along: leave the others out")
            self._take_bank(
                Bank.open(X) if not isinstance(X, Bank) else X, None if isinstance(X, Bank) else X
            )
        else:
            if Y is None:
                raise EstimatorInputError("requires y to be passed, but the target y is None: give outputs Y")
            self._take_arrays(X, Y, times, known, mask)
        self.model_ = model
        return self

    def _forget(self) -> None:
        for name in _FITTED:
            if name in vars(self):
                delattr(self, name)

    def _take_arrays(self, X: Any, Y: Any, times: Any, known: Any, mask: Any) -> None:
        with as_value_errors():
            inputs, outputs = plain_array(X, "X"), plain_array(Y, "Y")
            if len(inputs) != len(outputs):
                raise EstimatorInputError(f"X has {len(inputs)} functions, but Y has {len(outputs)}")
            for name, array in (("X", inputs), ("Y", outputs)):
                check_finite(array, name, gaps=True)  # the bank says what to do about those
            layouts = ArrayLayout.of(inputs), ArrayLayout.of(outputs)
            out_coords = self.out_coords
            if outputs.ndim == 1:
                outputs = as_functions(outputs)
            if out_coords is None and tuple(outputs.shape[1:]) == (1,) != tuple(inputs.shape[1:]):
                out_coords = np.zeros((1, 1))  # one number has no place: any will do
            self.bank_ = Bank(
                inputs, in_dtype(outputs, inputs), coords=self.coords, out_coords=out_coords, axes=self.axes,
                mask=mask, times=times, known=known, graph=self.graph,
            )  # fmt: skip
        self._inputs, self._outputs = layouts
        self._path: Path | None = None
        if inputs.ndim == 2:
            self.n_features_in_ = int(inputs.shape[1])

    def _take_bank(self, bank: Bank, path: str | Path | None) -> None:
        form = bank.form
        self._inputs = ArrayLayout.flat(len(form.input_coords), form.input_channels)
        self._outputs = ArrayLayout.flat(len(form.output_coords), form.output_channels)
        self.bank_ = bank
        self._path = None if path is None else Path(path)
        if len(self._inputs.shape) == 1:
            self.n_features_in_ = self._inputs.shape[0]

    def partial_fit(
        self,
        X: Any,
        Y: Any,
        *,
        times: ArrayLike | None = None,
        known: ArrayLike | None = None,
        mask: Any = None,
    ) -> Self:
        """More pairs behind the others, as truth arrives; the first ones are `fit`.

        To a bank on disk they are added there. Where the operator is calibrated, its weights learn from them:
        each is asked first, of what was in the bank before, and then told.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, Y, times=times, known=known, mask=mask)
        bank, form = self.bank_, self.bank_.form
        with as_value_errors():
            inputs = in_layout(X, self._inputs, form)
            outputs = in_layout(Y, self._outputs, form, "Y", output=True)
            pairs = Pairs.from_arrays(
                inputs, in_dtype(outputs, inputs), coords=form.input_coords, out_coords=form.output_coords,
                axes=form.axes, mask=mask_in_layout(mask, form), times=times, known=known,
            )  # fmt: skip
            pairs = pairs.to("cpu", form.dtype)
            self._learn(pairs)
            if self._path is not None:  # it was opened for reading, so that others may read and write
                bank.close()
                bank = self.bank_ = Bank.open(self._path, writing=True)
                self._path = None
            bank.add(pairs)
        return self

    def _learn(self, pairs: Pairs) -> None:
        """Let the weights of a calibration hear of pairs that the bank does not hold yet."""
        calibration: Calibration | None = getattr(self, "calibration_", None)
        if calibration is None:
            return
        for first in range(0, len(pairs), self._batch()):
            some = pairs.cut(first, min(first + self._batch(), len(pairs)))
            prompt = self.bank_.prompts(
                some.inputs, self.k, self.by, times=some.asked, seed=self._seed(), first=first
            )
            calibration = calibration.after(self.model_, prompt, some.outputs.values, some.outputs.mask)
        self.calibration_ = calibration

    def calibrate(self, questions: int = 200) -> Self:
        """Ask the bank about its own pairs, and keep what that tells of programs and errors.

        It is kept as ``calibration_``. From then on ``predict`` takes the program that was chosen, and its
        bands come from the errors of these questions (`chop.Bank.calibrate`).
        """
        bank = self._fitted()
        self.calibration_ = bank.calibrate(
            self._program(), self.model_, k=self.k, by=self.by, questions=questions, seed=self._seed()
        )
        return self

    # Answers

    def predict(self, X: Any, *, times: ArrayLike | None = None, band: float | None = None) -> Any:
        """Output functions for inputs X, in an array of the same kind.

        Args:
            X: Q functions at the points of the fitted ones
            times: when each question is asked: it is shown only pairs whose outputs were known by then
            band: a level such as 0.9: `PredictedBand` of the answers and of where the truth should lie
        """
        self._fitted()
        asked = plain_array(X, "X")
        count = len(asked)
        found: list[Tensor] | None = None
        first = 0
        for result in self._answers(asked, times, trace=False, judged=band is not None):
            shown: list[Tensor] = [result.values]
            if band is not None:
                edges = result.band(band)
                shown += [edges.lower, edges.upper]
            if found is None:
                found = [part.new_empty(count, *part.shape[1:]) for part in shown]
            for whole, part in zip(found, shown, strict=True):
                whole[first : first + len(part)] = part
            first += len(result.values)
        assert found is not None
        arrays = [like(asked, part, self._outputs, self._inputs) for part in found]
        return arrays[0] if band is None else PredictedBand(*arrays)

    def results(self, X: Any, *, times: ArrayLike | None = None) -> Iterator[Result]:
        """The runs themselves, one for each batch of questions, with traces, bands and trust."""
        self._fitted()
        yield from self._answers(plain_array(X, "X"), times, trace=True, judged=True)

    def _answers(self, asked: Any, times: Any, trace: bool, judged: bool) -> Iterator[Result]:
        """Batch by batch; where answers are to be judged, with answers at the examples."""
        bank = self._fitted()
        with as_value_errors():
            queries = in_layout(asked, self._inputs, bank.form)
            check_finite(queries, "X")
        moments = None if times is None else np.asarray(times)
        calibration: Calibration | None = getattr(self, "calibration_", None)
        program = self._program() if calibration is None else calibration.program
        scores = None if calibration is None else calibration.scores
        validate = False
        for first in range(0, len(queries), self._batch()):
            rows = slice(first, first + self._batch())
            with as_value_errors():
                prompt = bank.prompts(
                    queries[rows], self.k, self.by, seed=self._seed(), first=first,
                    times=moments if moments is None or moments.ndim == 0 else moments[rows],
                )  # fmt: skip
            result = program.run(self.model_, prompt, trace=trace, validate=validate)
            if judged and result.held_out is None and (scores is None or scores.power):
                # The program does not report answers at the examples by itself: ask for them from here on.
                validate = True
                result = program.run(self.model_, prompt, trace=trace, validate=True)
            yield result if scores is None else result.calibrated(scores)

    def score(self, X: Any, Y: Any, *, times: ArrayLike | None = None) -> float:
        """The coefficient of determination R², the mean over all output values of a function.

        1 is perfect, 0 as good as each value's mean over Y. Values that are the same in all of Y count 1
        where they are met and 0 elsewhere; NaN for fewer than two functions, or where an answer is not
        finite. Ask about other pairs than the fitted ones: those would be shown themselves.
        """
        predicted, truth = self._beside_truth(X, Y, times)
        if len(truth) < 2:
            return float("nan")
        left = (truth - predicted).square().sum(dim=0)
        whole = (truth - truth.mean(dim=0)).square().sum(dim=0)
        share = torch.where(whole > 0, 1 - left / torch.where(whole > 0, whole, 1), (left == 0).to(left))
        share = torch.where(torch.isnan(left), torch.nan, share)
        return float(share.mean())

    def error(self, X: Any, Y: Any, *, times: ArrayLike | None = None) -> float:
        """The mean relative L2 error of the answers."""
        predicted, truth = self._beside_truth(X, Y, times)
        return float(metrics.rel_l2(predicted, truth).mean())

    def _beside_truth(self, X: Any, Y: Any, times: Any) -> tuple[Tensor, Tensor]:
        """Answers and truth ``(Q, m, c)`` in double precision."""
        bank = self._fitted()
        truth = torch.as_tensor(in_layout(Y, self._outputs, bank.form, "Y", output=True)).double()
        check_finite(truth, "Y")
        values = torch.cat(
            [result.values for result in self._answers(plain_array(X, "X"), times, False, False)]
        )
        if len(values) != len(truth):
            raise EstimatorInputError(f"X has {len(values)} functions, but Y has {len(truth)}")
        return values.double(), truth.cpu()

    # Files

    def save(self, path: str | Path) -> Path:
        """A folder with the parameters, the bank and the calibration; no pickle.

        A model that was given by its name is found again by it; any other has to be given to `load`.
        """
        from chop.bank.estimator_files import save_estimator

        self._fitted()
        return save_estimator(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, model: FrozenModel | str | Path | None = None) -> Self:
        """What `save` wrote; ``model`` is needed where it was not given by its name then."""
        from chop.bank.estimator_files import load_estimator

        return load_estimator(cls, Path(path), model)

    # Parameters, as they are used

    def _fitted(self) -> Bank:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit with pairs before asking it"
            )
        return self.bank_

    def _loaded(self) -> FrozenModel:
        if isinstance(self.model, str | Path):
            from chop.icon.weights import load

            return load(self.model)
        return self.model

    def _program(self) -> Program:
        return program_of(self.program)

    def _batch(self) -> int:
        if not (isinstance(self.batch, int | np.integer) and self.batch >= 1):
            raise EstimatorInputError(
                f"batch is how many questions are asked together: 1 or more, not {self.batch!r}"
            )
        return int(self.batch)

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(self.random_state)
