"""What is in a file of questions, answers or weights, for someone who wonders."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from chop.core.errors import ChopError
from chop.core.words import count, size
from chop.files.layout import ANSWERS_FORMAT, LAYOUT
from chop.files.questions import QuestionFile
from chop.files.sources import ArraySource, open_source
from chop.storage.json_text import printable

_OF_ANSWERS = {
    "values": "the answers",
    "lower": "the lower bound of each answer",
    "upper": "the upper bound of each answer",
    "rejected": "answers that must not be used",
    "error": "in-context mean squared errors",
    "rel_l2": "relative L2 errors",
}


def contents(path: Path) -> dict[str, Any]:
    """Kind, size, arrays and notes of a file, as plain values that can be shown anywhere."""
    found: dict[str, Any] = _shown(_weights(path) if path.suffix == ".safetensors" else _arrays(path))
    return found


def _shown(value: Any) -> Any:
    """The same with what no terminal should be sent written out: anyone may have chosen the texts."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_shown(key): _shown(part) for key, part in value.items()}
    return [_shown(part) for part in value] if isinstance(value, list) else value


def _arrays(path: Path) -> dict[str, Any]:
    with closing(open_source(path)) as source:
        answers = source.text_note("format") == ANSWERS_FORMAT
        meanings = (
            _OF_ANSWERS
            if answers
            else {name: spec.meaning for spec in LAYOUT for name in (spec.name, spec.grouped)}
        )
        arrays = [
            {
                "name": name,
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "bytes": array.claimed_bytes,
                "meaning": meanings.get(name),
            }
            for name, array in source.arrays.items()
            if name not in source.notes
        ]
        found = {
            "file": str(path),
            "kind": source.kind,
            "bytes": path.stat().st_size,
            "arrays": arrays,
            "notes": {name: text for name, text in source.notes.items() if isinstance(text, str)},
        }
        return found | ({"holds": "answers"} if answers else _questions(source))


def _questions(source: ArraySource) -> dict[str, Any]:
    """What questions can be read from it; why not, if none."""
    try:
        file = QuestionFile(source)
        prompt = file.read(0, 1).prompt
        return {
            "holds": "questions",
            "questions": len(file),
            "examples": prompt.examples,
            "answer": list(file.answer_shape[1:]),
            "target": file.has_target,
            "grid": {name: len(along) for name, along in file.answer_grid},
            "assumed": prompt.assumed,
        }
    except ChopError as error:
        return {"holds": "arrays", "no_questions": str(error)}


def _weights(path: Path) -> dict[str, Any]:
    from chop.icon.weights import provenance

    header = provenance(path)
    return {
        "file": str(path),
        "kind": "weights",
        "holds": "a network",
        "bytes": path.stat().st_size,
        "config": header.config.to_dict(),
        "training": dict(header.training),
    }


def contents_text(found: dict[str, Any]) -> str:
    """The same to be read in a terminal."""
    lines = [f"{found['file']}: {found['kind']}, {size(found['bytes'])}"]
    if found["holds"] == "a network":
        for name, value in {**found["config"], **found["training"]}.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            lines.append(f"  {name:18} {shown}")
        return "\n".join(lines)
    width = max((len(array["name"]) for array in found["arrays"]), default=0)
    for array in found["arrays"]:
        shape = " x ".join(map(str, array["shape"])) or "one value"
        meaning = f"  {array['meaning']}" if array["meaning"] else ""
        lines.append(
            f"  {array['name']:{width}}  {shape:18} {array['dtype']:8} {size(array['bytes']):>9}{meaning}"
        )
    lines += [f"  {name}: {text}" for name, text in found["notes"].items() if len(text) <= 200]
    if found["holds"] == "questions":
        points, channels = found["answer"]
        lines.append(
            f"{count(found['questions'], 'question')} with {count(found['examples'], 'example')}, "
            f"answers of {count(points, 'point')} x {count(channels, 'channel')}, "
            + ("with the true answers" if found["target"] else "without the true answers")
        )
        if found["grid"]:
            axes = ", ".join(f"{name} ({length})" for name, length in found["grid"].items())
            lines.append(f"answers on a grid: {axes}")
        if found["assumed"]:
            lines.append(f"axes are not stated; assumed: {found['assumed']}")
    elif found["holds"] == "arrays":
        lines.append(f"no questions: {found['no_questions']}")
    return "\n".join(lines)
