"""One fingerprint: values that stand in journals and stores, what tells prompts apart, and callables."""

import functools
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn

import chop
from chop.bench.suite import fingerprint_of_weights as of_weights
from chop.evolution.identity import task_parts
from chop.evolution.space import Space
from chop.evolution.task import relative_error
from chop.evolution.tasks import load_task
from chop.icon.weights import find
from chop.problems.case import Case
from chop.runs import fingerprint
from chop.runs.fingerprint import content_key, may_be_same, of_callable, of_model
from chop.testing import make_prompt

TOY = str(Path(__file__).parents[1] / "assets" / "toy_task.py")


def test_what_stands_in_stores_and_journals_of_0_1_0_is_what_comes_out():
    assert of_weights(find("conservation")).startswith("25540f516702ce39")
    assert of_weights(find("mfc")).startswith("74e12eda4a5b7a94")
    assert of_weights(find("air_yrd")).startswith("d755327c709a1120")
    task = load_task(TOY)
    parts = task_parts(task, Space.of(task), "")
    assert parts["data"].startswith("95326356d1a2520b")
    assert parts["model"].startswith("7b3a410a98bd7ec4")


def test_the_content_of_a_prompt_is_all_a_model_can_see():
    prompt = make_prompt(0, batch=(2,), points=8)
    mask = torch.ones_like(prompt.query.values, dtype=torch.bool)
    mask[0, 0, 0] = False
    axes = (chop.Axis("x", 2.0),)
    changes = [
        {"at": prompt.at + 0.1},
        {"times": prompt.times + 1},
        {"axes": axes},
        {"query": prompt.query.with_values(prompt.query.values + 1)},
        {"query": chop.Field(prompt.query.coords, prompt.query.values, mask)},
        {"graph": chop.core.prompt.Graph(torch.tensor([[0], [1]]), prompt.at.shape[-2])},
    ]
    keys = [content_key(prompt), *(content_key(prompt.mapped(**change)) for change in changes)]
    keys += [
        content_key(prompt.held_out(pad=True)),
        content_key(prompt.held_out(pad=False)),
        content_key(prompt[:1]),
    ]
    assert len(set(keys)) == len(keys)
    again = make_prompt(0, batch=(2,), points=8)
    assert content_key(again) == keys[0]


def test_models_are_known_by_their_state_or_their_answers():
    prompt = make_prompt(0, batch=(2,), points=8)
    module = nn.Linear(2, 2)
    same = nn.Linear(2, 2)
    same.load_state_dict(module.state_dict())
    assert of_model(module, prompt) == of_model(same, prompt)
    same.bias.data += 1
    assert of_model(module, prompt) != of_model(same, prompt)
    assert of_model(module.to(torch.bfloat16), prompt), "numpy does not know this dtype"
    one, other = ((lambda p, k=k: k * p.query.values) for k in (1.0, 2.0))
    assert of_model(one, prompt) == of_model(lambda p: p.query.values, prompt)
    assert of_model(one, prompt) != of_model(other, prompt)


FILE = """
import functools
import torch
from dataclasses import dataclass

SCALE = 2.0
WORDS = {"a", "b", "c", "d"}

def helper(x):
    return SCALE * x

def metric(answers, cases, power=2):
    if "z" in {"z", "y", "x", "w"} and WORDS:
        return helper(answers).abs().pow(power).mean(dim=(-1, -2))

def made(limit):
    return lambda answers, cases: answers.clamp(max=limit).mean(dim=(-1, -2))

@dataclass(slots=True)
class Weighted:
    weight: float
    def __call__(self, answers, cases):
        return self.weight * metric(answers, cases)

class Network(torch.nn.Module):
    def forward(self, x):
        return x + 1

@torch.no_grad()
def decorated(answers, cases):
    return helper(answers)

found = [
    metric, made(1.0), functools.partial(metric, power=3), Weighted(1.5), Weighted(1.5).__call__, Network(),
    decorated, functools.lru_cache(metric), lambda answers, cases: answers,
]
"""
COUNT = 9


def fingerprints(folder, *texts, name="mine"):
    """Of each text as a file, in a process of its own: another order of sets each time."""
    folder.mkdir(exist_ok=True)
    files = [folder / f"{name}_{number}.py" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    code = (
        "import json, sys; from chop.core import user_code; from chop.core.errors import ModelError\n"
        "from chop.runs.fingerprint import of_callable\n"
        "modules = [user_code.load_file(file, ModelError) for file in sys.argv[1:]]\n"
        "print(json.dumps([list(map(of_callable, module.found)) for module in modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    (found,) = fingerprints(tmp_path_factory.mktemp("code") / "here", FILE)
    return found


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    """The fingerprints after each of the changes."""
    texts = [FILE.replace(old, new, 1) for old, new, _ in CHANGES.values()]
    return dict(zip(CHANGES, fingerprints(tmp_path_factory.mktemp("changed"), *texts), strict=True))


def test_callables_are_the_same_in_every_process_and_place(first, tmp_path):
    assert len(set(first)) == COUNT
    moved = "# a comment above\n\n\n" + FILE
    assert fingerprints(tmp_path / "elsewhere", moved, name="other_name") == [first]


CHANGES = {
    "a constant of the module": ("SCALE = 2.0", "SCALE = 2.5", {0, 2, 3, 4, 6, 7}),
    "a set of the module": ('"c", "d"}', '"c", "e"}', {0, 2, 3, 4, 7}),
    "a function that is called": ("return SCALE * x", "return SCALE + x", {0, 2, 3, 4, 6, 7}),
    "a default": ("power=2", "power=4", {0, 2, 3, 4, 7}),
    "what is closed over": ("made(1.0)", "made(2.0)", {1}),
    "an operator": ("self.weight * metric", "self.weight + metric", {3, 4}),
    "state": ("Weighted(1.5), W", "Weighted(2.5), W", {3}),
    "an argument of a partial": ("power=3", "power=5", {2}),
    "the code of a module": ("return x + 1", "return x + 2", {5}),
    "a lambda": ("lambda answers, cases: answers,", "lambda answers, cases: -answers,", {8}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_by_those_it_concerns(first, after, change):
    old, _, concerned = CHANGES[change]
    assert old in FILE
    assert {i for i in range(COUNT) if after[change][i] != first[i]} == concerned


def test_what_is_installed_is_known_by_its_name():
    assert of_callable(relative_error).startswith("relative_error@:")
    assert of_callable(torch.norm) == of_callable(torch.norm)
    assert of_callable(torch.norm) != of_callable(torch.sum)
    assert of_callable(nn.MSELoss(reduction="sum")) != of_callable(nn.MSELoss())
    assert of_callable(functools.partial(torch.norm, p=1)) != of_callable(functools.partial(torch.norm, p=2))


def test_code_of_another_python_is_compared_by_name():
    ours = of_callable(fingerprints)
    theirs = ours.replace(f"@{sys.version_info.major}.{sys.version_info.minor}:", "@3.99:") + "0"
    assert may_be_same(ours, ours)
    assert may_be_same(ours, theirs)
    assert not may_be_same(ours, ours + "0")
    assert not may_be_same(ours, theirs.replace("fingerprints", "others"))
    assert not may_be_same(ours, of_callable(relative_error))


def test_things_that_hold_themselves_come_to_an_end():
    @dataclass
    class Holds:
        inside: object = None

        def __call__(self, answers, cases):
            return self

    one, other = Holds(), Holds()
    one.inside = {"self": one, "deep": functools.reduce(lambda inner, _: [inner], range(200), 1)}
    other.inside = {"self": other, "deep": 1}
    assert of_callable(one) != of_callable(other)

    def recursive(answers, cases):
        return recursive(answers, cases)

    assert of_callable(recursive) == of_callable(recursive)


def test_every_part_of_a_task_is_seen():
    task = load_task(TOY)
    cases = task.cases
    prompt = cases.prompt
    mask = torch.ones_like(cases.target, dtype=torch.bool)
    axes = tuple(chop.Axis(f"{axis.name}_", axis.period) for axis in prompt.axes)
    changes = {
        "data": {"cases": Case(prompt, cases.target + 1)},
        "axes": {"cases": replace(cases, prompt=prompt.mapped(axes=axes))},
        "times": {"cases": replace(cases, prompt=prompt.mapped(times=prompt.times + 3))},
        "masks": {"cases": replace(cases, mask=mask)},
        "model": {"model": lambda p: p.query.values},
        "metric": {"metric": lambda answers, cases: answers.abs().mean(dim=(-1, -2))},
        "limits": {"limits": replace(task.limits, seconds=7)},
        "start": {"start": "flip | icon"},
        "operators": {"operators": task.operators[:-1]},
    }
    before = task_parts(task, Space.of(task), "")
    for name, change in changes.items():
        other = replace(task, **change)
        after = task_parts(other, Space.of(other), "")
        assert [key for key in before if before[key] != after[key]] == [name]


def test_plain_values_have_one_form():
    assert fingerprint.canonical_json({"b": 1, "a": [None, 2.5]}) == '{"a": [null, 2.5], "b": 1}'
