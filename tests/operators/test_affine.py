"""Affine transforms against small literal oracles."""

import numpy as np
import pytest
import torch
from operator_tools import fill

from chop.core.text import parse
from chop.operators import (
    Flip,
    Icon,
    Increment,
    Minmax,
    Normalize,
    Rescale,
)
from chop.testing import make_prompt, toy_model

icon = Icon()


def visible(prompt):
    parts = (prompt.inputs.values, prompt.outputs.values, prompt.query.values)
    return np.concatenate([part.reshape(-1).numpy() for part in parts])


@pytest.mark.parametrize("target", [1.0, 0.25])
def test_rescale_gives_the_target_spread(target):
    prompt = make_prompt(3, channels=(2, 2))
    for center in ("auto", "mean"):
        frame = Rescale(center=center, target=target).fit(prompt)
        mapped = visible(frame.prompt)
        assert np.mean(mapped) == pytest.approx(0, abs=1e-12)
        assert np.std(mapped, ddof=1) == pytest.approx(target)
        assert float(frame.notes["centre"]) == pytest.approx(visible(prompt).mean())
        assert float(frame.notes["scale"]) == pytest.approx(visible(prompt).std(ddof=1))


def test_rescale_keeps_densities_non_negative():
    prompt = make_prompt(3, style="nonnegative")
    frame = Rescale().fit(prompt)
    mapped = visible(frame.prompt)
    assert mapped.min() >= 0
    assert np.sqrt(np.mean(mapped**2)) == pytest.approx(1)
    assert float(frame.notes["centre"]) == 0
    centred = visible(Rescale(center="mean").fit(prompt).prompt)
    assert centred.min() < 0


def test_rescale_decides_for_each_query():
    mixed = make_prompt(3, batch=(2,))
    values = {
        name: torch.stack([getattr(mixed, name).values[0].abs(), getattr(mixed, name).values[1]])
        for name in ("inputs", "outputs", "query")
    }
    centre = Rescale().fit(fill(mixed, **values)).notes["centre"]
    assert float(centre[0]) == 0
    assert float(centre[1]) != 0


def test_rescale_of_a_flat_prompt_stays_finite():
    prompt = fill(
        make_prompt(1), inputs=torch.ones(5, 12, 1), outputs=torch.ones(5, 12, 1), query=torch.ones(12, 1)
    )
    prompt = prompt.to(torch.float64)
    for text in ('rescale(center="mean") | icon', "rescale | icon", "normalize | icon", "minmax | icon"):
        assert parse(text).run(toy_model, prompt).values.isfinite().all()


def test_normalize_uses_example_inputs_only():
    prompt = make_prompt(3, channels=(3, 3))
    mapped = Normalize().fit(prompt).prompt
    pooled = mapped.inputs.values.reshape(-1, 3).numpy()
    np.testing.assert_allclose(pooled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(pooled.std(axis=0, ddof=1), 1)
    own = prompt.inputs.values.reshape(-1, 3).numpy()
    expected = (prompt.outputs.values.numpy() - own.mean(axis=0)) / own.std(axis=0, ddof=1)
    np.testing.assert_allclose(mapped.outputs.values.numpy(), expected)
    separate = Normalize(separate=True).fit(prompt).prompt.outputs.values.reshape(-1, 3).numpy()
    np.testing.assert_allclose(separate.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(separate.std(axis=0, ddof=1), 1)


def test_minmax_reaches_both_ends():
    for seed in range(4):
        mapped = visible(Minmax().fit(make_prompt(seed)).prompt)
        assert mapped.min() == pytest.approx(-1, abs=1e-12)
        assert mapped.max() == pytest.approx(1, abs=1e-12)


def test_flip_is_its_own_inverse():
    prompt = make_prompt(1)
    once = Flip().fit(prompt).prompt
    assert torch.equal(once.query.values, -prompt.query.values)
    assert torch.equal(Flip().fit(once).prompt.outputs.values, prompt.outputs.values)


def test_increment_shows_changes():
    prompt = make_prompt(1, consecutive=True)
    mapped = Increment().fit(prompt).prompt
    assert torch.equal(mapped.outputs.values, prompt.outputs.values - prompt.inputs.values)
    result = parse("increment | icon").run(lambda p: torch.zeros(p.answer_shape, dtype=p.dtype), prompt)
    assert torch.equal(result.values, prompt.query.values)
