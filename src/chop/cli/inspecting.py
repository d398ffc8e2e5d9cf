"""``chop inspect``: what the examples in a file show, and how a model answers at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chop.cli.predict import MODEL_OPTION


def inspect(
    questions: Annotated[Path, typer.Argument(help="The questions: .h5, .nc or .npz.", metavar="QUESTIONS")],
    model: Annotated[str | None, MODEL_OPTION] = None,
    index: Annotated[
        int | None, typer.Option("--index", "-i", min=0, help="One question, from 0; all if left out.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file instead of text: .png, .pdf, .svg, .html or .json."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """What the examples show: order, grid, what is kept, how linear, how far the query; no model is needed.

    With one, also which symmetries its held-out answers respect, and at which scale, in which frame and with
    which sign it errs least. Of one question each fact with its evidence; of a file the share of questions
    that show it and the median of its number.
    """
    from chop.cli.terminal import print_json
    from chop.core.errors import FileError
    from chop.core.words import count
    from chop.files.models_and_programs import choose_model
    from chop.files.questions import QuestionFile
    from chop.operators.inspection.fact import joined
    from chop.operators.inspection.inspecting import inspect as facts_of
    from chop.pictures.facts_page import FACTS_FORMS
    from chop.pictures.saving import form_of, save_as
    from chop.runs.progress import passing_bar
    from chop.storage.atomic import check_writable
    from chop.storage.json_text import readable

    if out is not None:
        check_writable(out, FileError, force)
        form_of(out, FACTS_FORMS, FileError)
    with QuestionFile(questions) as file:
        chosen = None if model is None else choose_model(model)
        if index is None:
            parts = []
            with passing_bar(len(file), readable(questions.name)) as shown:
                for part in file.batches():
                    parts.append(facts_of(part.prompt, chosen))
                    shown.update(part.first + len(part))
            facts = joined(parts)
        else:
            facts = facts_of(file.question(index).prompt[0], chosen)
    told = {"file": str(questions), "questions": facts.prompts, "index": index, "model": model}
    if out is not None:
        save_as(out, FACTS_FORMS, facts, told, error=FileError, overwrite=force)
    if as_json:
        print_json({**told, "facts": facts.to_json()})
        return
    if out is not None:
        typer.echo(str(out))
        return
    about = count(facts.prompts, "question") if index is None else f"question {index}"
    typer.echo(f"{questions}: {about}\n{facts.text()}")
