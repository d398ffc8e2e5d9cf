"""What is on the page, to be used without it: as Python and as commands."""

from __future__ import annotations

import shlex

from chop.studio.questions import (
    AirQuestion,
    ControlQuestion,
    FileQuestion,
    LawQuestion,
    Page,
    Question,
)


def as_python(page: Page) -> str:
    """The same question and program in Python."""
    return "\n".join(
        [
            "import chop",
            *_question_lines(page.question),
            f"model = chop.files.choose_model({page.model!r})",
            f"program = chop.parse({page.program!r})",
            "result = program.run(model, prompt, validate=prompt.examples > 1)",
            "print(result.trace.explain())",
            'result.trace.save("trace.html")',
            "",
        ]
    )


def _question_lines(question: Question) -> list[str]:
    match question:
        case LawQuestion(drawn=()):
            return [
                "from chop.problems import conservation",
                "",
                f"case = conservation.sample({question.flux!r}, 1, first={question.number}, "
                f"steps={question.horizon}, examples={question.examples}, step={question.step}, "
                f"mean={question.mean}, scale={question.scale})",
                "prompt, truth = case.prompt[0], case.target[0]",
            ]
        case LawQuestion():
            return [
                "import numpy as np",
                "import torch",
                "from scipy.interpolate import CubicSpline",
                "from chop.problems import conservation",
                "",
                f"drawn = {list(question.drawn)}",
                "x = np.linspace(0, 1, len(drawn) + 1)",
                'curve = CubicSpline(x, [*drawn, drawn[0]], bc_type="periodic")',
                "start = np.clip(curve(np.arange(100) / 100), -3, 3)",
                f"times = {question.step} * np.arange({question.examples + 1 + question.horizon})",
                f"frames = conservation.solve({question.flux!r}, start, times).values[0]",
                f"prompt = conservation.window(torch.from_numpy(frames[: {question.examples + 1}]).float())",
            ]
        case ControlQuestion():
            return [
                "from chop.problems import mfc",
                "",
                f"case = mfc.sample({question.family!r}, {question.length}, 1, first={question.number}, "
                f"examples={question.examples})",
                "prompt, truth = case.prompt[0], case.target[0]",
            ]
        case AirQuestion():
            return [
                "from chop.problems import air",
                "",
                'data = "chop-studio/invented"  # made by air.make_world(data)'
                if question.invented
                else 'data = "DIR"  # the folder of --data',
                'channels = chop.load("air_bthsa").config.channels',
                f"case = air.sample({question.region!r}, 1, first={question.number}, lead={question.lead}, "
                f"selection={question.selection!r}, data=data, channels=channels)",
                "prompt, truth = case.prompt[0], case.target[0]",
            ]
        case FileQuestion():
            return [
                "",
                f"with chop.files.QuestionFile({question.name!r}) as file:",
                f"    prompt = file.question({question.index}).prompt[0]",
            ]


def as_commands(page: Page) -> str:
    """The same as commands; what only the page can make is exported as question.h5 first."""
    question, made, index = page.question, "question.h5", 0
    before = "# question.h5 is what the page exports as the question"
    match question:
        case LawQuestion(drawn=(), examples=5, step=0.1):
            options = [
                "--flux",
                question.flux,
                "--n",
                str(question.number + 1),
                "--steps",
                str(question.horizon),
            ]
            options += ["--mean", str(question.mean), "--scale", str(question.scale)]
            before, index = (
                shlex.join(["chop", "data", "conservation", "--out", made, *options]),
                question.number,
            )
        case ControlQuestion(examples=5):
            options = ["--family", question.family, "--length", str(question.length)]
            options += ["--n", str(question.number + 1)]
            before, index = shlex.join(["chop", "data", "mfc", "--out", made, *options]), question.number
        case FileQuestion():
            before, made, index = "", question.name, question.index
    run = ["chop", "explain", made, "--index", str(index), "--model", page.model, "--program", page.program]
    return "\n".join(line for line in (before, shlex.join([*run, "--out", "trace.html"])) if line) + "\n"
