"""Mean-field control: the density that a hidden cost moves, by Hopf-Cole."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.numerics.heat import HopfCole, SubGrid, hopf_cole
    from chop.problems.mfc.operators import FAMILIES, even_grid
    from chop.problems.mfc.sampling import sample
    from chop.problems.mfc.training import MfcStream

__all__ = ["FAMILIES", "HopfCole", "MfcStream", "SubGrid", "even_grid", "hopf_cole", "sample"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.numerics.heat": ("HopfCole", "SubGrid", "hopf_cole"),
        "chop.problems.mfc.operators": ("FAMILIES", "even_grid"),
        "chop.problems.mfc.sampling": ("sample",),
        "chop.problems.mfc.training": ("MfcStream",),
    },
)
