"""``chop convert``: a published checkpoint as weights that `chop.load` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chop.cli.terminal import print_json


def convert(
    checkpoint: Annotated[
        Path, typer.Argument(help="What torch.save wrote: .ckpt, .pt or .pth.", metavar="CHECKPOINT")
    ],
    out: Annotated[Path, typer.Argument(help="The weights: .safetensors.", metavar="OUT")],
    heads: Annotated[
        int | None, typer.Option(min=1, help="Attention heads, which tensors do not show; 8 if left out.")
    ] = None,
    x_scale: Annotated[
        float, typer.Option(help="The network is shown x times this; 1 is how ICON was trained.")
    ] = 1.0,
    attention: Annotated[
        str | None,
        typer.Option(help="Of a graph ICON, where tensors do not show it: plain, rotary or similar."),
    ] = None,
    channels: Annotated[
        str | None,
        typer.Option(help="Of a graph ICON with others than published: names in the order of training."),
    ] = None,
    origin: Annotated[
        str, typer.Option(help="Where it comes from: icon-chop, icon-core, or words of yours.")
    ] = "not stated",
    licence: Annotated[
        str | None, typer.Option(help="Its licence; known for icon-chop and icon-core.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Turn a published ICON checkpoint into a weights file, without running anything in it.

    A checkpoint is a pickle, which can hold any code. It is read as data: tensors and plain values alone. The
    shape of the network is read off its tensors; what does not fit is said by name. Beside the weights a page
    is written that says where they come from, under which licence, and what they expect.
    """
    from chop.files.contents import contents, contents_text
    from chop.icon.published.conversion import Source, convert_checkpoint
    from chop.icon.published.shapes import Hidden

    names = None if channels is None else tuple(name.strip() for name in channels.split(","))
    hidden = Hidden(heads, x_scale, attention, names)
    weights = convert_checkpoint(checkpoint, out, hidden, Source(origin, licence), overwrite=force)
    found = contents(weights)
    if as_json:
        print_json(found)
        return
    typer.echo(contents_text(found))
    typer.echo(f"{weights}\n{weights.with_suffix('.md')}")
