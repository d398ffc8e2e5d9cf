"""Agents that are language models: they read the operators, the references and their own guidance, and write.

What they write is text and stays text: lines that `chop.parse` accepts become proposals, everything else is
counted and dropped. Their guidance is given back to them and shown in the report, escaped; nothing a model
says is ever run, opened or looked up.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from chop.core.editing import program_parameters
from chop.core.errors import ChopError, EvolutionError
from chop.core.text import MAX_CHARACTERS, parse
from chop.evolution.agents import LANGUAGE_MODEL, Agent, Brief, Proposal, Proposals
from chop.evolution.chat import Chat, ChatError, Message
from chop.evolution.population import Candidate
from chop.evolution.space import Space, value_parameters
from chop.storage.log import AppendLog
from chop.storage.schema import safe_int

MAX_LINES = 200
"""Lines of an answer that are looked at."""
MAX_GUIDANCE = 1500
"""Characters of guidance a model may leave itself."""
TRANSCRIPT = "transcript.jsonl"
FIRST_GUIDANCE = (
    "Ask which assumption of the model the prompts break (range, frame, sign, mean), undo it with a "
    "transform, then correct what is left with a validator. Prefer short programs."
)


@dataclass(frozen=True)
class Budget:
    """What language models may cost an evolution."""

    tokens: int = 500_000
    failures: int = 5
    """failed questions in a row after which no more are asked"""
    fruitless: int = 5
    """answers in a row without a new program after which no more are asked"""


@dataclass(eq=False)
class LanguageModel:
    """Proposes through a chat; keeps a transcript beside the journal, and stops when its budget is spent."""

    chat: Chat
    folder: str | Path
    _: KW_ONLY
    budget: Budget | None = None
    explain: Callable[[Candidate], str] | None = None
    """gives a reference's trace in words, where that is wanted"""
    show: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._limits = self.budget or Budget()
        self._show = self.show or (lambda line: None)
        self._transcript = Path(self.folder) / TRANSCRIPT
        self.tokens = tokens_spent(self._transcript)
        self.failures = 0
        self.fruitless = 0

    def __call__(self, agent: Agent, brief: Brief, /) -> Proposals:
        """Programs from the model's answer; none, and a sentence why, where there is no usable answer."""
        if self.tokens >= self._limits.tokens:
            return Proposals((), notes={"problem": "the token budget is spent"})
        if self.failures >= self._limits.failures:
            return Proposals((), notes={"problem": "not asked after too many failures"})
        if self.fruitless >= self._limits.fruitless:
            problem = "not asked after too many answers without a new program"
            return Proposals((), notes={"problem": problem})
        messages = question_messages(agent, brief, self.explain)
        try:
            reply = self.chat.ask(messages)
        except ChatError as error:
            self.failures += 1
            self._show(str(error))
            self._write(brief.iteration, agent, messages, str(error), 0)
            return Proposals((), notes={"problem": str(error)})
        self.failures = 0
        self.tokens += reply.tokens
        text = self.chat.clean(reply.text)
        self._write(brief.iteration, agent, messages, text, reply.tokens)
        programs, guidance, refused = parse_answer(text, brief)
        self._count(bool(programs))
        parents = tuple(candidate.number for candidate in brief.references)
        proposals = tuple(Proposal(text, LANGUAGE_MODEL, parents, agent.number) for text in programs)
        return Proposals(proposals, guidance, {"tokens": reply.tokens, "refused": refused})

    def _count(self, fruitful: bool) -> None:
        """Who repeats itself is not asked for ever: questions are bounded by the new programs they bring."""
        self.fruitless = 0 if fruitful else self.fruitless + 1
        if self.fruitless == self._limits.fruitless:
            self._show(
                f"the language model at {self.chat.host} gave no new program {self.fruitless} times in a "
                "row: it is not asked again"
            )

    def _write(
        self, iteration: int, agent: Agent, messages: Sequence[Message], answer: str, tokens: int
    ) -> None:
        record = {
            "iteration": iteration, "agent": agent.number, "model": self.chat.model,
            "messages": [{name: self.chat.clean(words) for name, words in m.items()} for m in messages],
            "answer": answer, "tokens": tokens, "clock": round(time.time(), 3),
        }  # fmt: skip
        with contextlib.closing(AppendLog(self._transcript, EvolutionError)) as lines:
            lines.append([record])


def tokens_spent(transcript: Path) -> int:
    """Tokens of earlier sessions."""
    if not transcript.is_file():
        return 0
    log = AppendLog(transcript, EvolutionError, writing=False)
    return sum(record["tokens"] for _, record in log.records(lambda _: ("answer", {"tokens": safe_int})))


def parse_answer(text: str, brief: Brief) -> tuple[list[str], str | None, int]:
    """(program texts, new guidance, lines that looked like programs and were refused)."""
    found: dict[str, None] = {}
    refused = 0
    for line in _candidate_lines(text):
        try:
            program = parse(line, max_calls=brief.space.limits.calls)
        except ChopError:
            refused += 1
            continue
        written = str(program)
        if not brief.space.admits(program):
            refused += 1
        elif written not in brief.taken and len(found) < brief.count:
            found[written] = None
    return list(found), _guidance(text), refused


_MARK = re.compile(r"^[\s>*`#\d.)-]*PROGRAM[\s*]*:[\s*]*", re.IGNORECASE)
_GUIDANCE = re.compile(r"^[\s>*`#-]*GUIDANCE[\s*]*:[\s*]*(.*)", re.IGNORECASE)


def _candidate_lines(text: str) -> list[str]:
    """Lines that may be programs: those marked so, or those in fences if none is marked."""
    lines = [line for line in text.split("\n", MAX_LINES)[:MAX_LINES] if len(line) <= MAX_CHARACTERS]
    marked = [_MARK.sub("", line) for line in lines if _MARK.match(line)]
    found = marked or _fenced(lines)
    return [line.strip().strip("`").strip() for line in found if line.strip()]


def _fenced(lines: Sequence[str]) -> list[str]:
    inside, found = False, []
    for line in lines:
        if line.strip().startswith("```"):
            inside = not inside
        elif inside:
            found.append(line)
    return found


def _guidance(text: str) -> str | None:
    """What a model wants to tell itself: one line of printable text."""
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        matched = _GUIDANCE.match(line[: MAX_GUIDANCE + 100])
        if matched:
            words = "".join(c if c.isprintable() else " " for c in matched.group(1))
            return words.strip()[:MAX_GUIDANCE] or None
    return None


def question_messages(
    agent: Agent, brief: Brief, explain: Callable[[Candidate], str] | None = None
) -> list[Message]:
    """What a model is asked: operators, references with their scores, its guidance, the form of an answer."""
    limits = brief.space.limits
    parts = [
        f"Reference programs, with score = mean error of the bare model / mean error of the program on "
        f"{len(brief.references[0].raw)} questions with {brief.space.examples} examples each (higher is "
        "better):",
        *(f"  {c.fitness:.4f}  {c.calls} model calls  {c.text}" for c in brief.references),
    ]
    if explain is not None:
        best = brief.references[0]
        parts += ["", f"What happens inside {best.text} on one question:", explain(best)]
    parts += [
        "",
        f"Your guidance to yourself: {agent.guidance}",
        "",
        f"Write {brief.count} new programs that score higher, each on a line of its own beginning with "
        f"PROGRAM: (at most {limits.size} operators and {limits.calls} model calls). You may end with one "
        "line GUIDANCE: in which you rewrite your guidance for next time.",
    ]
    return [
        {"role": "system", "content": operator_reference(brief.space)},
        {"role": "user", "content": "\n".join(parts)},
    ]


def operator_reference(space: Space) -> str:
    """The operators that suit the task, generated from their declarations."""
    lines = [
        "You improve programs around a frozen in-context model called icon. A program is an expression:",
        '  transforms stand left, projections right: rescale(center="mean") | icon | finite',
        "  validators and mixtures take programs as arguments: select(correct(rescale | icon), icon)",
        "Only these operators exist:",
    ]
    for operator in space.operators:
        takes = "".join(
            f" Takes {param.allowed}: {param.doc}." for param in program_parameters(operator).values()
        )
        lines.append(f"- {operator.name} ({operator.role}): {operator.summary()}{takes}")
        lines += [
            f"    {key}: {param.doc} ({param.allowed})" for key, param in value_parameters(operator).items()
        ]
    return "\n".join(lines)
