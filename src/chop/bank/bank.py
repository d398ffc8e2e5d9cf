"""A bank: pairs that were seen, from which the examples of every question are chosen."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from chop.bank.allowed import Allowed
from chop.bank.choosing import By, check_by, nearest_rows, random_rows, recent_rows, spread_rows
from chop.bank.fitting import fitting_likeness
from chop.bank.likeness import Likeness
from chop.bank.memory import MemoryPairs
from chop.bank.pairs import PairForm, Pairs
from chop.bank.segments import DiskPairs
from chop.bank.sources import PairSource, block_rows
from chop.bank.times import step_numbers
from chop.core.errors import BankError
from chop.core.fields import ArrayLike, Axis, Field, Graph, as_tensor, holds_integers, shape_text
from chop.core.prompt import Coordinates, Prompt
from chop.core.words import representation
from chop.numerics import Array

if TYPE_CHECKING:
    from chop.bank.calibration import Calibration
    from chop.core.model import FrozenModel
    from chop.core.program import Program

EXAMPLES = 5
"""Pairs that a question shows, unless asked otherwise."""


class Bank:
    """Pairs of functions, in memory or on disk, and questions made with them.

    A pair may be shown to a query asked at time T only if its output was there by then: ``known <= T``.
    Without times, and for queries that say none, everything in the bank is past.

    Args:
        inputs: N functions, ``(N, *points)`` or, with channels, ``(N, *points, c)``, in any form that
            `Prompt.from_arrays` reads; so are all arguments but ``times`` and ``known``.
        outputs: what became of them.
        coords, out_coords: where they are given.
        axes: what the coordinates are.
        mask: where they were observed.
        times: when each input was there, N whole numbers in any unit.
        known: when each output was there; as soon as its input if left out.
        graph: neighbours of the output points.
    """

    def __init__(
        self,
        inputs: ArrayLike,
        outputs: ArrayLike,
        *,
        coords: Coordinates | None = None,
        out_coords: Coordinates | None = None,
        axes: Sequence[Axis | str] | Axis | str | None = None,
        mask: ArrayLike | Mapping[str, ArrayLike] | Literal["nan"] | None = None,
        times: ArrayLike | None = None,
        known: ArrayLike | None = None,
        graph: Graph | ArrayLike | None = None,
    ) -> None:
        pairs = Pairs.from_arrays(
            inputs, outputs, coords=coords, out_coords=out_coords, axes=axes, mask=mask, times=times,
            known=known, graph=graph,
        )  # fmt: skip
        self._hold(MemoryPairs(pairs))

    def _hold(self, source: PairSource) -> None:
        self._source = source
        self._fitted: tuple[int, Likeness] | None = None

    @classmethod
    def of(cls, pairs: Pairs) -> Bank:
        """A bank in memory that begins with these pairs."""
        return cls.over(MemoryPairs(pairs))

    @classmethod
    def over(cls, source: PairSource) -> Bank:
        """A bank whose rows come from somewhere else."""
        made = cls.__new__(cls)
        made._hold(source)
        return made

    @classmethod
    def create(cls, path: str | Path, pairs: Pairs | None = None, overwrite: bool = False) -> Bank:
        """A new bank in a folder, open for adding; ``overwrite`` replaces one that is there."""
        source = DiskPairs.create(Path(path), overwrite)
        if pairs is not None:
            try:
                source.add(pairs)
            except BaseException:
                source.close()
                raise
        return cls.over(source)

    @classmethod
    def open(cls, path: str | Path, writing: bool = False) -> Bank:
        """The bank in a folder. Many may read it at once, also while one, with ``writing``, adds to it."""
        return cls.over(DiskPairs(Path(path), writing))

    def add(self, pairs: Pairs) -> int:
        """More pairs behind the others: kept, whatever happens then, when this returns their new number."""
        return self._source.add(pairs)

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        facts = {"pairs": f"{len(self):,}"}
        if self._source.form is not None:
            facts["form"] = self._source.form.words()
            facts["times"] = "yes" if self._source.form.timed else "no"
        return representation("Bank", facts)

    def close(self) -> None:
        """Let go of files; others may write then."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> None:
        """See what was added since by whoever writes to a bank on disk."""
        self._source.refresh()

    @property
    def source(self) -> PairSource:
        """Where the rows come from."""
        return self._source

    @property
    def form(self) -> PairForm:
        """What all pairs share."""
        if self._source.form is None:
            raise BankError(f"{self._source.name} is empty: add pairs first")
        return self._source.form

    @property
    def asked(self) -> Tensor | None:
        """When each input was there ``(N,)``; None without times."""
        return self._source.asked

    @property
    def known(self) -> Tensor | None:
        """When each output was there ``(N,)``; None without times."""
        return self._source.known

    def take(self, indices: Any) -> Pairs:
        """Some pairs, by their numbers from 0 and in the order asked for."""
        rows = self._rows(indices)
        if not len(rows):
            raise BankError("name one row or more")
        return self._source.take(rows)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, Pairs]]:
        """All pairs in order, some at a time, with the number of the first; memory stays bounded."""
        if rows is not None and rows < 1:
            raise BankError(f"a block has 1 row or more, not {rows}")
        if len(self):
            yield from self._source.blocks(block_rows(self.form.row_bytes) if rows is None else rows)

    @property
    def likeness(self) -> Likeness:
        """How inputs are compared, as the pairs themselves suggest; chosen anew when the bank has doubled."""
        self.form  # noqa: B018  # an empty bank says so
        if self._fitted is None or len(self) >= 2 * self._fitted[0]:
            self._fitted = len(self), fitting_likeness(self._source)
        return self._fitted[1]

    def examples(
        self,
        queries: Field | ArrayLike,
        k: int = EXAMPLES,
        by: By = "similar",
        before: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        seed: int = 0,
    ) -> Tensor:
        """The rows ``(Q, k)`` that are shown for queries ``(Q, n, c)``.

        Args:
            queries: inputs to ask about
            k: how many pairs each is shown
            by: "similar", the nearest first; "random"; "recent", those known last, in the order of time; or
                "spread", the most similar and then those farthest from all before
            before: when each query is asked, a number or Q of them: only pairs known by then are shown
            exclude: rows that are never shown, ``(Q,)`` or ``(Q, E)``, -1 for none: a pair asked about itself
            seed: of "random"
        """
        asked = self._queries(queries)
        numbers = np.arange(len(asked.values))
        return self._chosen(asked, k, by, self._allowed(len(numbers), before, exclude), seed, numbers)

    def _chosen(self, queries: Field, k: int, by: By, allowed: Allowed, seed: int, numbers: Array) -> Tensor:
        check_by(by)
        k, seed = _whole("k", k, 1), _whole("seed", seed, 0)
        allowed.require(k, self._source.name)
        if by == "random":
            rows = random_rows(k, allowed, numbers, seed)
        elif by == "recent":
            rows = recent_rows(k, allowed)
        elif by == "similar":
            own = self._source.similar(queries, k, allowed)
            rows = nearest_rows(self._source, self.likeness, queries, k, allowed) if own is None else own
        else:
            rows = spread_rows(self._source, self.likeness, queries, k, allowed)
        return torch.from_numpy(rows)

    def prompts(
        self,
        queries: Field | ArrayLike,
        k: int = EXAMPLES,
        by: By = "similar",
        before: ArrayLike | None = None,
        *,
        times: ArrayLike | None = None,
        at: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        seed: int = 0,
        first: int = 0,
    ) -> Prompt:
        """Questions about queries ``(Q, n, c)`` with examples from the bank: a prompt with batch ``(Q,)``.

        Args:
            queries, k, by, before, exclude, seed: as in `examples`
            times: when each query is asked, a number or Q of them; only pairs known by then are shown, unless
                ``before`` says otherwise. Without it queries are asked now, after everything in the bank.
            at: where answers are wanted, ``(m, k)`` or ``(Q, m, k)``; by default where outputs are given
            first: the number of the first query, where many are asked in parts: "random" draws by numbers

        In a bank with times the prompt's ``times`` count steps where pairs are equally spaced, else they are
        ranks (`chop.bank.times.step_numbers`).
        """
        asked = self._queries(queries)
        count = len(asked.values)
        if times is not None and not self.form.timed:
            raise BankError(f"{self._source.name} has no times, so queries can have none")
        moment = times if times is not None else before
        allowed = self._allowed(count, before if before is not None else times, exclude)
        rows = self._chosen(asked, k, by, allowed, seed, np.arange(first, first + count))
        return self._prompt(asked, rows, None if moment is None else _times("times", moment, count), at)

    def shown(self, queries: Field | ArrayLike, rows: Any, times: ArrayLike | None = None) -> Prompt:
        """Questions about queries ``(Q, n, c)`` that are shown chosen rows ``(Q, k)``."""
        asked, chosen = self._queries(queries), as_tensor(rows, "rows")
        if chosen.ndim != 2 or len(chosen) != len(asked.values) or not chosen.shape[1]:
            raise BankError(f"rows must be ({len(asked.values)}, k), not {shape_text(chosen)}")
        self._rows(chosen.reshape(-1))
        moment = None if times is None else _times("times", times, len(chosen))
        return self._prompt(asked, chosen, moment, None)

    def question(
        self, rows: Any, k: int = EXAMPLES, by: By = "similar", seed: int = 0
    ) -> tuple[Prompt, Field]:
        """Pairs of the bank asked as questions, and the truth; never shown themselves, or what came later."""
        numbers = self._rows(rows)
        if not len(numbers):
            raise BankError("name one row or more")
        pairs = self._source.take(numbers)
        asked = None if pairs.asked is None else pairs.asked.numpy()
        allowed = self._allowed(len(numbers), asked, numbers)
        chosen = self._chosen(pairs.inputs, k, by, allowed, seed, numbers.numpy())
        return self._prompt(pairs.inputs, chosen, asked, pairs.outputs.coords), pairs.outputs

    def calibrate(
        self,
        program: Program | str,
        model: FrozenModel,
        *,
        k: int = EXAMPLES,
        by: By = "similar",
        questions: int = 200,
        like: Field | ArrayLike | None = None,
        lead: int | None = None,
        examples: bool = True,
        seed: int = 0,
        folder: str | Path | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Calibration:
        """Measure once what the candidates of a program earn on past questions of this bank.

        Args:
            program: a mixture (``weigh``, ``combine``, ``average``, ``select``), whose parts are weighed;
                ``auto``, of which the parts that it makes use of are; or any other, beside the bare model
            model: the frozen model
            k, by: how examples are chosen, for past questions as for new ones
            questions: past questions that are asked: each a pair of the bank with examples known before it
            like: queries; past questions are then those that resemble them, else they are drawn by chance
            lead: only pairs whose output is known so long after the input
            examples: also weigh by each question's own examples, which costs k more model evaluations a
                candidate and lets bands follow them
            seed: of what is drawn
            folder: keeps finished answers, so that the same call goes on after it was stopped
            progress: hears how many of how many questions are answered
        """
        from chop.bank.calibrating import calibrate

        return calibrate(
            self, program, model, k=k, by=by, questions=questions,
            like=None if like is None else self._queries(like), lead=lead, examples=examples, seed=seed,
            folder=None if folder is None else Path(folder), heard=progress,
        )  # fmt: skip

    def _prompt(self, queries: Field, rows: Tensor, moment: Array | None, at: Any) -> Prompt:
        count, k = rows.shape
        shown = self._source.take(rows.reshape(-1))

        def part(field: Field) -> Field:
            return field.each(lambda tensor: _unflatten(tensor, count, k))

        steps = None
        if shown.asked is not None and shown.known is not None:
            if moment is None:
                latest = self.known
                assert latest is not None
                moment = np.full(count, int(latest.max()))
            asked, known = (time.numpy().reshape(count, k) for time in (shown.asked, shown.known))
            steps = torch.from_numpy(step_numbers(asked, known, moment))
        inputs, outputs = part(shown.inputs), part(shown.outputs)
        return Prompt(
            inputs=inputs,
            outputs=outputs,
            query=queries,
            at=self.form.output_coords if at is None else as_tensor(at, "at"),
            graph=self.form.graph,
            axes=self.form.axes,
            times=steps,
        )

    def _queries(self, given: Field | ArrayLike) -> Field:
        """Queries as functions, in the bank's dtype; arrays are values at the bank's own points."""
        form = self.form
        if not isinstance(given, Field):
            values: Any = given
            if not isinstance(values, np.ma.MaskedArray):
                values = as_tensor(values, "queries")
            size = form.input_size
            if values.ndim < 2 or int(np.prod(values.shape[1:])) != size:
                points, channels = len(form.input_coords), form.input_channels
                raise BankError(
                    f"queries must be (Q, {points}, {channels}), or (Q, {points}) for one channel, as the "
                    f"inputs of {self._source.name} are, not {tuple(values.shape)}"
                )
            values = values.reshape(len(values), len(form.input_coords), form.input_channels)
            given = Field(form.input_coords, values)
        if len(given.batch) != 1 or not len(given.values):
            raise BankError(f"queries must be (Q, n, c), one or more, not {shape_text(given.values)}")
        if given.channels != form.input_channels or given.coords.shape[-1] != form.input_coords.shape[-1]:
            raise BankError(
                f"queries have {given.channels} channels and {given.coords.shape[-1]} coordinates, the "
                f"inputs of {self._source.name} {form.input_channels} and {form.input_coords.shape[-1]}"
            )
        if not bool(torch.isfinite(given.values).all()):
            raise BankError("queries have non-finite values; fill them in and mark them False in a mask")
        return given.to("cpu", form.dtype)

    def _allowed(self, queries: int, before: Any, exclude: Any) -> Allowed:
        known = self.known
        if before is not None and known is None:
            raise BankError(f"{self._source.name} has no times, so nothing in it is before anything")
        left_out = np.full((queries, 1), -1)
        if exclude is not None:
            rows = as_tensor(exclude, "exclude")
            if not holds_integers(rows) or rows.ndim not in (1, 2) or len(rows) != queries:
                raise BankError(
                    f"exclude must be rows, ({queries},) or ({queries}, E), not {shape_text(rows)}"
                )
            left_out = rows.reshape(queries, -1).cpu().long().numpy()
        return Allowed(
            len(self),
            queries,
            None if known is None else known.numpy(),
            None if before is None else _times("before", before, queries),
            left_out,
        )

    def _rows(self, indices: Any) -> Tensor:
        if isinstance(indices, slice):
            return torch.arange(*indices.indices(len(self)))
        rows = torch.as_tensor(indices) if isinstance(indices, range) else as_tensor(indices, "rows")
        rows = rows.reshape(1) if rows.ndim == 0 else rows
        if not rows.numel():
            return torch.empty(0, dtype=torch.int64)
        if rows.ndim != 1 or not holds_integers(rows):
            raise BankError(f"rows are whole numbers in a row, not {rows.dtype} {shape_text(rows)}")
        rows = rows.cpu().long()
        if int(rows.min()) < 0 or int(rows.max()) >= len(self):
            bad = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
            raise BankError(f"{self._source.name} has rows 0 to {len(self) - 1}, so {bad} is none")
        return rows


def _unflatten(tensor: Tensor, count: int, k: int) -> Tensor:
    """``(Q k, n, c)`` as ``(Q, k, n, c)``; what all share stays shared."""
    if tensor.stride(0) == 0 and len(tensor) > 1:
        return tensor[0].expand(count, k, *tensor.shape[1:])
    split: Tensor = tensor.unflatten(0, (count, k))
    return split


def _whole(name: str, given: SupportsIndex, least: int) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        raise BankError(f"{name} must be a whole number, not {given!r}") from None
    if not least <= number < 2**63:
        raise BankError(f"{name} must be {least} or more, not {number}")
    return number


def _times(name: str, given: Any, count: int) -> Array:
    """One whole number for each query, also where all have the same."""
    times = as_tensor(given, name)
    if not holds_integers(times) or times.shape not in ((), (1,), (count,)):
        raise BankError(
            f"{name} must be a whole number or {count} of them, one for each query, not {times.dtype} "
            f"{shape_text(times)}"
        )
    return np.asarray(times.cpu().long().expand(count).numpy())
