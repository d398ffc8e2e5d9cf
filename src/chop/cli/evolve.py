"""``chop evolve``: search for a program, resumable."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from chop.evolution.agents import Proposer
    from chop.evolution.search import SearchState


class Judges(StrEnum):
    """Who judges candidates."""

    processes = "processes"
    inline = "inline"
    ray = "ray"


def evolve(
    task: Annotated[
        str, typer.Option(help="conservation, mfc, air, or a Python file of your own that defines task.")
    ],
    budget: Annotated[int, typer.Option(min=13, help="Candidates to judge, at most.")] = 2000,
    agents: Annotated[
        str,
        typer.Option(
            help="Who proposes, separated by commas: builtin (all of explorer, mutator, breeder, validator, "
            "simplifier, tuner), any of these, llm, or random for plain random search."
        ),
    ] = "builtin",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same search.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the journal; chop-evolve/TASK-SEED if left out."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0 means one for each core.")] = 0,
    executor: Annotated[Judges, typer.Option(help="Where candidates are judged.")] = Judges.processes,
    llm_url: Annotated[
        str | None,
        typer.Option(help="An OpenAI-compatible address, such as http://localhost:8080/v1."),
    ] = None,
    llm_model: Annotated[str | None, typer.Option(help="The model's name there.")] = None,
    llm_timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for an answer.")] = 120.0,
    llm_tokens: Annotated[int, typer.Option(min=1, help="Tokens language models may use.")] = 500_000,
    export: Annotated[Path | None, typer.Option(help="Write the winner's text to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it exists.")] = False,
) -> None:
    """Search for a program around a frozen model: agents propose, races decide, a journal remembers.

    Every candidate is kept as it is judged. Ctrl-C, a crash or a full disk lose nothing: the same command
    continues, and a larger budget goes on from there. The key of a language model is read from CHOP_LLM_KEY
    or OPENAI_API_KEY.
    """
    import torch

    from chop.cli.terminal import console as terminal
    from chop.core.errors import EvolutionError
    from chop.evolution.chat import Chat
    from chop.evolution.language_agents import FIRST_GUIDANCE, Budget, LanguageModel
    from chop.evolution.report import write_report
    from chop.evolution.search import evolve as search
    from chop.evolution.search import prepare_export
    from chop.evolution.task import explain_program
    from chop.evolution.tasks import load_task
    from chop.runs.progress import COUNT, Progress, lasting_bar

    torch.set_num_threads(1)  # as the workers: more gain nothing at this size
    console = terminal()

    def say(line: str) -> None:
        console.print(line, markup=False)

    if export is not None:
        prepare_export(export, force)
    with_models = "llm" in agents.split(",")
    if (llm_url or llm_model) and not with_models:
        raise EvolutionError(
            "a language model was given, but nobody asks it: add llm to --agents, such as builtin,llm"
        )
    loaded = load_task(task)
    folder = out if out is not None else Path("chop-evolve") / f"{loaded.name}-{seed}"
    proposers: dict[str, Proposer] = {}
    if with_models:
        if not llm_url or not llm_model:
            raise EvolutionError("language-model agents need an address: give --llm-url and --llm-model")
        proposers["llm"] = LanguageModel(
            Chat(llm_url, llm_model, timeout=llm_timeout), folder, budget=Budget(llm_tokens), show=say,
            explain=lambda candidate: explain_program(loaded, candidate.text),
        )  # fmt: skip

    def say_progress(count: float, minutes: float | None, words: str) -> None:
        left = "" if minutes is None else f"about {minutes:.0f} min left, "
        say(f"{count:.0f} of {budget} candidates, {left}{words}")

    bar = lasting_bar(COUNT) if console.is_terminal else None
    with Progress(bar, budget, say=say_progress, start=None) as progress:

        def watch(state: SearchState) -> None:
            words = f"score {state.best.fitness:.3f}: {state.best.text[:60]}"
            progress.update(len(state.candidates), words)

        try:
            found = search(
                task, budget, out=folder, seed=seed, agents=agents, workers=workers, executor=executor.value,
                proposers=proposers, guidance=FIRST_GUIDANCE if with_models else "", watch=watch, show=say,
            )  # fmt: skip
        except KeyboardInterrupt:
            say(f"stopped; everything judged is in {folder} and the same command continues")
            raise typer.Exit(130) from None
    with console.status("judging the winner on the validation set"):
        page, winner = write_report(found)
    say(found.winner.text)
    if found.without_model:
        say("it never calls the model: the examples alone answer these questions better")
    say(f"score on the evolution set: {found.fitness:.3f} (error of {loaded.start} / its error)")
    for score in winner.scores:
        if score.validation is not None:
            mean, less = score.validation.mean, score.validation.reduction
            say(f"validation error, {score.name}: {mean:.4g} (reduction {less:.1f} %)")
    if export is not None:
        found.save(export, force)
        say(str(export))
    say(str(page))


__all__ = ["evolve"]
