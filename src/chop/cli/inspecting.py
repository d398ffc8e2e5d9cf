"""``chop inspect``: what the examples in a file show, before any model is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def inspect(
    questions: Annotated[Path, typer.Argument(help="The questions: .h5, .nc or .npz.", metavar="QUESTIONS")],
    index: Annotated[
        int | None, typer.Option("--index", "-i", min=0, help="One question, from 0; all if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """What the examples show, without any model: order, grid, what is kept, how linear, how far the query.

    Of one question each fact with its evidence; of a file the share of questions that show it and the median
    of its number.
    """
    from chop.cli.terminal import print_json
    from chop.core.words import count
    from chop.files.questions import QuestionFile
    from chop.operators.inspection.fact import joined
    from chop.operators.inspection.inspecting import inspect as facts_of

    with QuestionFile(questions) as file:
        if index is None:
            facts = joined([facts_of(part.prompt) for part in file.batches()])
        else:
            facts = facts_of(file.question(index).prompt[0])
    if as_json:
        told = {"file": str(questions), "questions": facts.prompts, "index": index, "facts": facts.to_json()}
        print_json(told)
        return
    about = count(facts.prompts, "question") if index is None else f"question {index}"
    typer.echo(f"{questions}: {about}\n{facts.text()}")
