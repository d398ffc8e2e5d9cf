"""A program as nested tuples, run on one question.

("icon",), ("last_frame",), ("first_frame",), ("mean_frame",), ("mean_output",), ("nearest_output",),
("copy_query",), ("query_mean",)
("wrap", (transform, options), inner)      ("project", inner, (projection, options))
("correct", inner, options)                ("debias", inner, options)
("select", [programs], options)            ("combine", [programs], options)
("average", [programs], options)
"""

import numpy as np

from .combination import combine
from .leaves import LEAVES
from .projections import finite, project
from .prompt import held_out
from .transforms import fit
from .validators import choose, correction, mean_residual, others, residuals, validation_error

DEFAULTS = {
    "correct": {"weights": "similar", "magnitude": None, "gate": True, "pad": True, "gap": 0},
    "debias": {"smooth": "none", "pad": False, "gap": 0},
    "select": {"pad": True, "gap": 0},
    "combine": {"channels": (), "shrink": True, "pad": False, "gap": 0},
}


def options_of(program):
    """The options of a validator, with the defaults filled in."""
    given = program[2] if len(program) > 2 else {}
    unknown = set(given) - set(DEFAULTS[program[0]])
    if unknown:
        raise ValueError(f"{program[0]} has no options {sorted(unknown)}")
    return {**DEFAULTS[program[0]], **given}


def reports(program):
    """Whether a program has held-out answers of its own: a validator, possibly wrapped or projected."""
    if program[0] == "wrap":
        return reports(program[2])
    if program[0] == "project":
        return reports(program[1])
    return program[0] in DEFAULTS


@np.errstate(all="ignore")
def answer(program, question, model):
    """The program's answer to the question: values at question.at."""
    kind = program[0]
    if kind == "icon":
        return np.asarray(model(question), dtype=float)
    if kind in LEAVES:
        return LEAVES[kind](question)
    if kind == "wrap":
        fitted = fit(program[1], question)
        return fitted.back(answer(program[2], fitted.question, model))
    if kind == "project":
        return project(program[2], answer(program[1], question, model), question)
    if kind == "average":
        return sum(answer(branch, question, model) for branch in program[1]) / len(program[1])
    return VALIDATORS[kind](program, question, model)[0]


@np.errstate(all="ignore")
def held_answers(program, question, model, pad, gap=0):
    """The program's D held-out answers, number h at the points of y_h."""
    if not reports(program):
        return [answer(program, hidden, model) for hidden in held_out(question, pad, gap)]
    if program[0] == "wrap":
        fitted = fit(program[1], question)
        inner = held_answers(program[2], fitted.question, model, pad, gap)
        return [fitted.back_held(h, inner[h]) for h in range(question.D)]
    if program[0] == "project":
        inner = held_answers(program[1], question, model, pad, gap)
        prompts = held_out(question, pad=False, gap=0)
        return [project(program[2], inner[h], prompts[h]) for h in range(question.D)]
    return VALIDATORS[program[0]](program, question, model)[1]


def run_correct(program, question, model):
    """Residual correction (Algorithm chop_G): the answer, and the pre-gate held-out answers."""
    options = options_of(program)
    base_held = held_answers(program[1], question, model, options["pad"], options["gap"])
    fitted = correction(question, base_held, options["weights"], options["magnitude"], options["gate"])
    return fitted.at_query(answer(program[1], question, model)), fitted.at_examples(base_held)


def run_debias(program, question, model):
    """Candidates 6 and 7 of CHOP(Air) (eqs. supp_air_holdout_candidates, supp_air_query_candidates)."""
    options = options_of(program)
    D, smooth = question.D, options["smooth"]
    base_held = held_answers(program[1], question, model, options["pad"], options["gap"])
    base_held = [finite(values) for values in base_held]
    R = residuals(question, base_held)
    held = []
    for h in range(D):
        rest = others(question, h)
        held.append(base_held[h] + mean_residual(question, R, rest, question.y_coords[h], smooth))
    base = answer(program[1], question, model)
    return base + mean_residual(question, R, list(range(D)), question.at, smooth), held


def run_select(program, question, model):
    """The outer decision of CHOP(MFC) (eq. supp_mfc_corrected_prediction)."""
    options = options_of(program)
    branches = program[1]
    held = [held_answers(branch, question, model, options["pad"], options["gap"]) for branch in branches]
    chosen = choose([validation_error(question, values) for values in held])
    return answer(branches[chosen], question, model), held[chosen]


def run_combine(program, question, model):
    """Candidate combination (Algorithm context_validated_combination)."""
    options = options_of(program)
    branches = program[1]
    by_branch = [held_answers(branch, question, model, options["pad"], options["gap"]) for branch in branches]
    held = [[values[h] for values in by_branch] for h in range(question.D)]
    query = [answer(branch, question, model) for branch in branches]
    return combine(question, held, query, options["channels"], options["shrink"])


VALIDATORS = {
    "correct": run_correct,
    "debias": run_debias,
    "select": run_select,
    "combine": run_combine,
}
