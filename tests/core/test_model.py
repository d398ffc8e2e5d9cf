"""Frozen models: adapters, and the one place that calls them."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_models import Attention, PromptAttention, Recording, Sharing, plain_arithmetic
from torch import nn

import chop
from chop import ModelError, from_jax, from_numpy, from_torch
from chop.core.model import Caller, SharesExamples, arrays
from chop.core.program import Icon
from chop.testing import ModelConformance, make_prompt, toy_model

BATCHES = [(), (3,), (2, 2)]
ICON = Icon()


def run(model, prompt, **options):
    return ICON.run(model, prompt, **options).values


# The bare model and its adapters.


@pytest.mark.parametrize("batch", BATCHES)
def test_icon_is_the_bare_model_bit_for_bit(batch):
    model = PromptAttention()
    prompt = make_prompt(1, batch=batch)
    with torch.no_grad():
        bare = model(prompt)
    assert torch.equal(run(model, prompt), bare)
    assert bare.shape == (*batch, 12, 1)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_from_torch(batch, dtype):
    network = Attention().to(dtype)
    prompt = make_prompt(1, batch=batch)
    values = run(from_torch(network), prompt)
    with torch.no_grad():
        expected = network(*arrays(prompt.to(dtype))).reshape(prompt.answer_shape)
    assert values.dtype == torch.float64
    assert torch.equal(values, expected.double())


class Noisy(nn.Module):
    """Answers with noise unless it is evaluated; its parts may be in different modes."""

    def __init__(self):
        super().__init__()
        self.noise, self.still = nn.Dropout(0.5), nn.Dropout(0.5).eval()

    def forward(self, input_coords, inputs, output_coords, outputs, coords, query, at):
        return self.still(self.noise(outputs.mean(dim=1)))


def test_from_torch_leaves_the_mode_as_it_found_it():
    network = Noisy()
    network.noise.train()
    modes = [part.training for part in network.modules()]
    assert modes == [True, True, False]
    model = from_torch(network)
    assert [part.training for part in network.modules()] == modes
    prompt = make_prompt(1, batch=(2,))
    assert torch.equal(run(model, prompt), prompt.outputs.values.mean(dim=-3))
    assert [part.training for part in network.modules()] == modes


def test_from_torch_leaves_the_mode_after_a_failure():
    network = Returns(lambda outputs: outputs[:, 7]).train()
    with pytest.raises(ModelError):
        run(from_torch(network), make_prompt(1))
    assert network.training


def test_from_torch_without_parameters():
    class Mean(nn.Module):
        def forward(self, input_coords, inputs, output_coords, outputs, coords, query, at):
            return outputs.mean(dim=1)

    prompt = make_prompt(1, batch=(2,))
    assert torch.equal(run(from_torch(Mean()), prompt), prompt.outputs.values.mean(dim=-3))


@pytest.mark.parametrize("batch", BATCHES)
def test_from_numpy(batch):
    seen = []

    def mean(*given):
        seen.extend(given)
        return given[3].mean(axis=1)

    prompt = make_prompt(1, batch=batch, points=6, answer_points=8, channels=(2, 1))
    values = run(from_numpy(mean), prompt)
    np.testing.assert_array_equal(values.numpy(), prompt.outputs.values.numpy().mean(axis=-3))
    b = prompt.batch.numel()
    shapes = [(b, 5, 6, 1), (b, 5, 6, 2), (b, 5, 8, 1), (b, 5, 8, 1), (b, 6, 1), (b, 6, 2), (b, 8, 1)]
    assert [array.shape for array in seen] == shapes
    assert all(isinstance(array, np.ndarray) and array.flags.c_contiguous for array in seen)


def test_from_numpy_of_another_dtype():
    prompt = make_prompt(1, batch=(2,), dtype=torch.float32)
    values = run(from_numpy(lambda *given: given[3].mean(axis=1).astype(np.float64)), prompt)
    assert values.dtype == torch.float32


@pytest.mark.parametrize("batch", BATCHES)
def test_from_jax(batch):
    jax = pytest.importorskip("jax", reason="JAX is an optional extra: pip install 'chain-of-operators[jax]'")

    def mean(input_coords, inputs, output_coords, outputs, coords, query, at):
        return jax.numpy.tanh(outputs.mean(axis=1)) + at

    prompt = make_prompt(1, batch=batch, dtype=torch.float32)
    values = run(from_jax(mean), prompt)
    assert values.dtype == torch.float32
    expected = torch.tanh(prompt.outputs.values.mean(dim=-3)) + prompt.at
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)


def test_from_jax_in_double_precision():
    """JAX computes in float32 unless told otherwise; the answer has the prompt's dtype either way."""
    pytest.importorskip("jax", reason="JAX is an optional extra: pip install 'chain-of-operators[jax]'")
    prompt = make_prompt(1, batch=(3,))
    values = run(from_jax(lambda *given: given[3].mean(axis=1)), prompt)
    assert values.dtype == torch.float64
    torch.testing.assert_close(values, prompt.outputs.values.mean(dim=-3), rtol=1e-6, atol=1e-6)


def test_jax_runs_a_whole_program():
    pytest.importorskip("jax", reason="JAX is an optional extra: pip install 'chain-of-operators[jax]'")
    prompt = make_prompt(1, batch=(2,), dtype=torch.float32)
    program = chop.programs["mfc"]
    theirs = program.run(from_jax(lambda *given: given[3].mean(axis=1)), prompt).values
    ours = program.run(lambda p: p.outputs.values.mean(dim=-3), prompt).values
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-4)


# A bad model is told in one sentence.


def raises(prompt):
    raise ZeroDivisionError("by nothing")


class Returns(nn.Module):
    """A network that gives something made of the example outputs."""

    def __init__(self, made):
        super().__init__()
        self.made = made

    def forward(self, *given):
        return self.made(given[3])


BAD = {
    "wrong shape": (lambda p: torch.zeros(7, 7), r"returned shape \(7, 7\), .*asks for \(2, 12, 1\)"),
    "batch lost": (lambda p: toy_model(p)[0], r"returned shape \(12, 1\)"),
    "not a tensor": (lambda p: toy_model(p).numpy(), r"must return a Tensor, not ndarray"),
    "nothing": (lambda p: None, r"must return a Tensor, not NoneType"),
    "integers": (lambda p: toy_model(p).long(), r"returned torch\.int64 on cpu"),
    "raises": (
        raises,
        r"failed on prompts of batch \(2,\) with 5 examples \(ZeroDivisionError: by nothing\)",
    ),
    "not callable": (object(), r"must be callable with a prompt; object is not"),
    "training": (nn.Linear(1, 1).train(), r"in training mode; call model\.eval\(\)"),
    "torch: no forward": (from_torch(nn.Module()), r"failed on prompts"),
    "torch: two answers": (from_torch(Returns(lambda outputs: (outputs, outputs))), r"an array, not tuple"),
    "torch: all examples": (from_torch(Returns(lambda outputs: outputs)), r"shape \(2, 5, 12, 1\)"),
    "numpy: channels first": (
        from_numpy(lambda *given: given[3].mean(axis=1).swapaxes(1, 2)),
        r"returned shape \(2, 1, 12\), .*but .*\(2, 12, 1\)",
    ),
    "numpy: flat": (from_numpy(lambda *given: np.zeros(24)), r"returned shape \(24,\), .*but .*\(2, 12, 1\)"),
    "numpy: integers": (from_numpy(lambda *given: given[3][:, 0].astype(int)), r"returned .*torch\.int64"),
    "numpy: text": (from_numpy(lambda *given: "no"), r"failed on prompts|must return"),
    "numpy: nothing": (from_numpy(lambda *given: None), r"failed on prompts|must return"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_models(case):
    model, pattern = BAD[case]
    with pytest.raises(ModelError, match=pattern) as caught:
        run(model, make_prompt(1, batch=(2,)))
    assert "\n" not in str(caught.value)


def test_the_models_own_error_is_kept_as_the_cause():
    with pytest.raises(ModelError) as caught:
        run(raises, make_prompt(1))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_interrupts_are_not_swallowed():
    def interrupted(prompt):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted, make_prompt(1))


def test_a_wrong_prompt_inside_the_model_keeps_its_own_words():
    def fussy(prompt):
        raise chop.PromptError("this model knows one dimension only")

    with pytest.raises(chop.PromptError, match="one dimension only"):
        run(fussy, make_prompt(1))


@pytest.mark.parametrize(
    ("answers", "pattern"),
    [
        (lambda prompts: [], r"predict_many must return 1 answers"),
        (lambda prompts: [toy_model(prompts[0])] * 2, r"predict_many must return 1 answers"),
        (lambda prompts: toy_model(prompts[0]), r"predict_many must return 1 answers"),
        (lambda prompts: None, r"predict_many must return 1 answers"),
        (lambda prompts: [torch.zeros(1)], r"returned shape \(1,\)"),
        (lambda prompts: [toy_model(prompts[0]).long()], r"returned torch\.int64"),
        (lambda prompts: 1 / 0, r"failed on prompts of batch \(2,\)"),
    ],
)
def test_bad_answers_of_predict_many(answers, pattern):
    class Bad:
        def __call__(self, prompt):
            raise AssertionError("predict_many comes first")

        def predict_many(self, prompts):
            return answers(prompts)

    with pytest.raises(ModelError, match=pattern):
        run(Bad(), make_prompt(1, batch=(2,)))


def test_nan_passes_and_is_marked():
    def sometimes(prompt):
        values = toy_model(prompt)
        values[1, 3] = float("nan")
        values[2, 0] = float("inf")
        return values

    result = ICON.run(sometimes, make_prompt(1, batch=(4,)))
    assert result.rejected.tolist() == [False, True, True, False]
    assert bool(result.values[1, 3].isnan())


def test_a_model_may_compute_in_another_precision():
    prompt = make_prompt(1, batch=(2,))
    values = run(lambda p: toy_model(p).float(), prompt)
    assert values.dtype == torch.float64


# What holds during a call, and after.


def test_inference_mode_is_on_and_the_result_is_ordinary():
    network = PromptAttention()

    def model(prompt):
        assert torch.is_inference_mode_enabled()
        return network(prompt)

    result = chop.programs["corr"].run(model, make_prompt(1, batch=(2,)))
    assert not torch.is_inference_mode_enabled()
    for tensor in (result.values, result.rejected, result.error, result.held_out):
        assert not tensor.is_inference()
        assert not tensor.requires_grad
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    (result.values * scale).square().sum().backward()
    assert scale.grad is not None
    result.values.requires_grad_()
    result.values.mul(2).sum().backward()
    assert result.values.grad is not None


@pytest.mark.parametrize("name", list(chop.programs))
def test_no_program_touches_a_weight(name):
    dimensions, channels = (3, (3, 3)) if name == "air" else (1, (1, 1))
    model = PromptAttention(dimensions=dimensions, channels=channels)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    versions = {key: value._version for key, value in model.state_dict().items()}
    prompt = make_prompt(1, batch=(2,), dimensions=dimensions, channels=channels)
    chop.programs[name].run(model, prompt, validate=True)
    after = model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert all(versions[key] == after[key]._version for key in versions)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


# Rounds: stacked into one call for each example count, split by memory.


def test_a_round_is_one_call_for_each_example_count():
    prompt = make_prompt(1, batch=(2,))
    model = Recording()
    caller = Caller(model, prompt)
    asked = [prompt, prompt.held_out(pad=True), prompt.held_out(pad=False), make_prompt(2, batch=(2,))]
    answers = caller(asked)
    assert [p.batch.numel() for p in model.asked] == [2 + 10 + 2, 10]
    assert [p.examples for p in model.asked] == [5, 4]
    assert caller.invocations == model.invocations == 2
    assert caller.evaluations == 1 + 5 + 5 + 1
    for answer, one in zip(answers, asked, strict=True):
        assert torch.equal(answer, plain_arithmetic(one))


def test_prompts_that_do_not_stack_are_asked_apart():
    prompt = make_prompt(1)
    others = [
        make_prompt(1, points=10),
        make_prompt(1, dtype=torch.float32),
        make_prompt(1, dimensions=2),
        make_prompt(1, dimensions=3),
        prompt.mapped(axes=(chop.Axis("y", 2.0),)),
        make_prompt(1, channels=(2, 2)),
    ]
    model = Recording()
    answers = Caller(model, prompt)([prompt, *others])
    assert model.invocations == 7
    for answer, one in zip(answers, [prompt, *others], strict=True):
        assert torch.equal(answer, plain_arithmetic(one))


def test_a_lone_prompt_reaches_the_model_as_it_is():
    prompt = make_prompt(1, batch=(2, 2))
    model = Recording()
    Caller(model, prompt)([prompt])
    assert model.asked[0] is prompt


ROW = (5 * 12 * 2 * 2 + 12 * 2 + 12) * 8  # bytes of one prompt of make_prompt(.) in float64


@given(
    batches=st.lists(st.sampled_from([(), (1,), (3,), (2, 2), (7,)]), min_size=1, max_size=4),
    max_bytes=st.one_of(st.integers(0, 12 * ROW), st.sampled_from([1, ROW, 2 * ROW, 3 * ROW - 1, 5 * ROW])),
)
@settings(max_examples=100)
def test_splitting_changes_no_bit(batches, max_bytes):
    prompts = [make_prompt(i, batch=batch) for i, batch in enumerate(batches)]
    whole = Caller(plain_arithmetic, prompts[0])(prompts)
    model = Recording()
    caller = Caller(model, prompts[0], max_bytes)
    split = caller(prompts)
    assert all(torch.equal(one, two) for one, two in zip(whole, split, strict=True))
    rows = max(1, max_bytes // ROW)
    total = sum(prompt.batch.numel() for prompt in prompts)
    sizes = [prompt.batch.numel() for prompt in model.asked]
    assert sum(sizes) == total
    assert max(sizes) <= rows
    assert len(sizes) == -(-total // rows) == caller.invocations
    assert caller.evaluations == -(-total // prompts[0].batch.numel())


def test_one_row_a_call():
    model = Recording()
    prompt = make_prompt(1, batch=(3,))
    whole = chop.programs["mfc"].run(plain_arithmetic, prompt)
    split = chop.programs["mfc"].run(model, prompt, max_bytes=1)
    assert torch.equal(split.values, whole.values)
    assert torch.equal(split.held_out, whole.held_out)
    assert split.calls == whole.calls == 12
    assert model.invocations == 36
    assert {asked.batch.numel() for asked in model.asked} == {1}


@pytest.mark.parametrize("max_bytes", [1, 3 * ROW, 7 * ROW, 11 * ROW])
@pytest.mark.parametrize(
    "text", [*map(str, list(chop.programs.values())[:4]), "debias(icon)", "reflect | icon"]
)
def test_programs_split_as_they_run_whole(text, max_bytes):
    program = chop.parse(text)
    prompt = make_prompt(1, batch=(5,), masked="debias" in text)
    whole = program.run(toy_model, prompt)
    split = program.run(toy_model, prompt, max_bytes=max_bytes)
    torch.testing.assert_close(split.values, whole.values, rtol=1e-12, atol=1e-12)
    assert (split.calls, split.rounds) == (whole.calls, whole.rounds)


# The seam for models that share encodings.


def test_predict_many_gets_a_round_unstacked():
    model = Sharing()
    assert isinstance(model, SharesExamples)
    prompt = make_prompt(1, batch=(3,))
    result = chop.programs["corr"].run(model, prompt)
    (asked,) = model.batches
    assert asked[0] is prompt
    assert asked[1].origin.parent is prompt
    assert model.encoded == 3 * 5  # each pair once, for six evaluations
    plain = chop.programs["corr"].run(lambda p: Sharing()(p), prompt)
    torch.testing.assert_close(result.values, plain.values, rtol=1e-12, atol=1e-12)
    assert result.calls == plain.calls == 6


@pytest.mark.parametrize("batch", [(5,), (2, 3)])
@pytest.mark.parametrize("max_bytes", [1, 13 * ROW, 25 * ROW])
@pytest.mark.parametrize(
    "text", ["correct(icon)", "select(correct(rescale | icon), icon)", "debias(correct(icon))"]
)
def test_predict_many_is_split_by_rows_of_the_root(text, max_bytes, batch):
    model = Sharing()
    prompt = make_prompt(1, batch=batch)
    program = chop.parse(text)
    result = program.run(model, prompt, max_bytes=max_bytes)
    whole = program.run(lambda p: Sharing()(p), prompt)
    torch.testing.assert_close(result.values, whole.values, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(result.held_out, whole.held_out, rtol=1e-12, atol=1e-12)
    assert result.calls == whole.calls
    assert len(model.batches) > 1
    rows = [asked[0].batch[0] for asked in model.batches]
    assert sum(rows) == prompt.batch.numel()
    assert len(set(rows[:-1])) <= 1
    for asked in model.batches:
        assert asked[0].origin is None
        for child in asked:
            if child.origin is None:
                continue
            parent, kept = child.origin.parent, child.origin.kept
            assert parent.batch[0] == child.batch[0] == asked[0].batch[0]
            assert kept.shape == (*child.batch, child.examples)
            for i in range(parent.batch[0]):
                for h in range(child.batch[1]):
                    expected = parent.inputs.values[i, kept[i, h]]
                    assert torch.equal(child.inputs.values[i, h], expected)
                    assert torch.equal(child.outputs.values[i, h], parent.outputs.values[i, kept[i, h]])
        # A parent that is asked in the same round is the very same object.
        direct = [child for child in asked if child.origin is not None and len(child.batch) == 2]
        assert any(child.origin.parent is asked[0] for child in direct)


def test_predict_many_splits_the_prompts_of_a_held_out_branch_consistently():
    """Two children of one parent still have one parent after the cut."""
    model = Sharing()
    prompt = make_prompt(1, batch=(4,))
    chop.parse("combine(debias(icon), correct(icon))").run(model, prompt, max_bytes=1)
    assert len(model.batches) == 4
    for root, *children in model.batches:
        assert len(children) == 2
        assert all(child.origin.parent is root for child in children)
    assert model.encoded == 4 * 5


class TestAttention(ModelConformance):
    tolerance = 1e-9
    dtype = torch.float64

    def make_model(self):
        return PromptAttention()

    def prompts(self, dtype=torch.float32):
        return [make_prompt(i, batch=batch, dtype=dtype) for i, batch in enumerate([(1,), (3,), (2, 2)])]


class TestSharing(TestAttention):
    def make_model(self):
        return Sharing()


class TestToyModel(ModelConformance):
    def make_model(self):
        return toy_model


# What is lent stays what it was.


class InPlace(nn.Module):
    def forward(self, input_coords, inputs, output_coords, outputs, coords, query, at):
        for part in (inputs, outputs, query):
            part.mul_(2).add_(1)
        return query


def test_a_module_that_works_in_place_changes_copies():
    prompt = make_prompt(1, batch=(2,))
    before = [part.clone() for part in arrays(prompt)]
    assert torch.equal(run(from_torch(InPlace()), prompt), 2 * prompt.query.values + 1)
    assert all(torch.equal(one, other) for one, other in zip(before, arrays(prompt), strict=True))


def doubled_in_place(input_coords, inputs, output_coords, outputs, coords, query, at):
    query *= 2
    return query


def doubled(*given):
    return 2 * given[5]


def test_a_function_that_works_in_place_is_told_so():
    mine = np.ones((12, 1))
    prompt = make_prompt(1)
    prompt = chop.Prompt(
        prompt.inputs, prompt.outputs, chop.Field(prompt.at, torch.from_numpy(mine)), prompt.at
    )
    with pytest.raises(ModelError, match=r"writes into its arguments.*copy them first"):
        run(from_numpy(doubled_in_place), prompt)
    assert (mine == 1).all()


def test_a_function_may_give_back_what_it_was_given():
    prompt = make_prompt(1, batch=(2,))
    values = run(from_numpy(lambda *given: given[5]), prompt)
    values += 1
    torch.testing.assert_close(values - 1, prompt.query.values)


def test_jax_arrays_are_not_written_into():
    jax = pytest.importorskip("jax", reason="JAX is an optional extra: pip install 'chain-of-operators[jax]'")
    kept = jax.numpy.ones((1, 12, 1))
    model = from_jax(lambda *given: kept)
    prompt = make_prompt(1, dtype=torch.float32)
    model(prompt).add_(1)
    assert bool((model(prompt) == 1).all())


# Adapted models travel if what they wrap does.


@pytest.mark.parametrize("make", [lambda: from_torch(Attention()), lambda: from_numpy(doubled)])
def test_adapted_models_pickle(make):
    model = make()
    prompt = make_prompt(1, batch=(2,))
    assert torch.equal(run(pickle.loads(pickle.dumps(model)), prompt), run(model, prompt))


def test_adapted_jax_models_pickle():
    pytest.importorskip("jax", reason="JAX is an optional extra: pip install 'chain-of-operators[jax]'")
    model = from_jax(doubled)
    prompt = make_prompt(1, dtype=torch.float32)
    run(model, prompt)
    assert torch.equal(run(pickle.loads(pickle.dumps(model)), prompt), run(model, prompt))
