"""Metrics, against numbers worked out by hand."""

import math

import pytest
import torch

from chop.core.errors import ChopError
from chop.core.metrics import paired, rel_l2, rmse


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_rel_l2():
    assert float(rel_l2(column(3, 0), column(0, 4))) == pytest.approx(5 / 4)
    assert float(rel_l2(column(1, 2), column(1, 2))) == 0
    assert float(rel_l2(column(0, 0), column(7, 1))) == 1


def test_rel_l2_is_told_for_each_query_over_points_and_channels():
    target = torch.tensor([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])
    answer = target.clone()
    answer[1] += 1
    assert rel_l2(answer, target).tolist() == [0, 1]


def test_rel_l2_of_a_zero_target_is_not_a_number_to_trust():
    assert math.isinf(float(rel_l2(column(1, 0), column(0, 0))))
    assert math.isnan(float(rel_l2(column(0, 0), column(0, 0))))


def test_rel_l2_passes_nan_on():
    assert math.isnan(float(rel_l2(column(1, float("nan")), column(1, 2))))


def test_rmse_of_each_channel():
    answer = torch.tensor([[1.0, 10.0], [3.0, 10.0]])
    target = torch.tensor([[0.0, 10.0], [0.0, 4.0]])
    assert rmse(answer, target).tolist() == pytest.approx([math.sqrt(5), math.sqrt(18)])


def test_rmse_of_what_was_observed():
    answer = torch.tensor([[1.0, 1.0], [3.0, 1.0]])
    target = torch.tensor([[0.0, 0.0], [0.0, float("nan")]])
    mask = torch.tensor([[False, True], [True, False]])
    assert rmse(answer, target, mask).tolist() == [3, 1]
    nothing = rmse(answer, target, torch.tensor([[False, True], [False, False]]))
    assert math.isnan(nothing[0])
    assert nothing[1] == 1


def test_paired():
    summary = paired(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.5, 2.0, 1.0, 5.0]))
    assert summary.cases == 4
    assert (summary.lower, summary.equal, summary.higher) == (2, 1, 1)
    assert summary.base_mean == 2.5
    assert summary.mean == 2.125
    assert summary.base_deviation == pytest.approx(math.sqrt(5 / 3))
    assert summary.deviation == pytest.approx(math.sqrt((1.625**2 + 0.125**2 + 1.125**2 + 2.875**2) / 3))
    assert summary.reduction == pytest.approx(15)
    text = str(summary)
    assert "2.5 ± 1.3 -> 2.125" in text
    assert "+15.0 % reduction; 2 lower, 1 equal, 1 higher" in text


def test_paired_of_one_case_and_of_any_shape():
    one = paired(torch.tensor(2.0), torch.tensor(4.0))
    assert one.reduction == -100
    assert math.isnan(one.deviation)
    assert math.isnan(one.base_deviation)
    assert paired(torch.zeros(2, 3), torch.zeros(2, 3)).equal == 6


def test_paired_with_a_perfect_base():
    assert math.isnan(paired(torch.zeros(3), torch.ones(3)).reduction)


def test_paired_refuses_what_does_not_pair():
    with pytest.raises(ChopError, match=r"shapes \(3,\) and \(2,\) do not compare"):
        paired(torch.zeros(3), torch.zeros(2))
    with pytest.raises(ChopError, match=r"no cases"):
        paired(torch.zeros(0), torch.zeros(0))
    with pytest.raises(ChopError, match=r"2 of 3 errors are not finite"):
        paired(torch.tensor([1, math.nan, 1]), torch.tensor([1, 1, math.inf]))


@pytest.mark.parametrize("metric", [rel_l2, rmse])
def test_shapes_must_agree(metric):
    """Broadcasting would compare every answer with every target."""
    with pytest.raises(ChopError, match=r"shapes \(5, 4, 1\) and \(4, 1\) do not compare"):
        metric(torch.zeros(5, 4, 1), torch.zeros(4, 1))
