"""Mean-field control: the density that a hidden cost moves, by Hopf-Cole."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.numerics.heat import HopfCole, SubGrid, hopf_cole
    from chop.problems.mfc.sampling import FAMILIES, even_grid, sample
    from chop.problems.mfc.training import MfcStream

__all__ = ["FAMILIES", "HopfCole", "MfcStream", "SubGrid", "even_grid", "hopf_cole", "sample"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.numerics.heat": ("HopfCole", "SubGrid", "hopf_cole"),
        "chop.problems.mfc.sampling": ("FAMILIES", "even_grid", "sample"),
        "chop.problems.mfc.training": ("MfcStream",),
    },
)
