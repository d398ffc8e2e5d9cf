"""Arrays of an xarray.Dataset: read as if it had been written to NetCDF under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.files.sources import Values, as_flag

if TYPE_CHECKING:
    import xarray


class VariableArray:
    """A variable; one that xarray has not loaded yet is read by rows."""

    piece = 0

    def __init__(self, variable: xarray.Variable) -> None:
        if variable.dtype.kind in "mM":  # dates become the numbers that NetCDF would hold
            from xarray.conventions import encode_cf_variable

            variable = encode_cf_variable(variable)
        self._variable = variable
        self.shape: tuple[int, ...] = variable.shape
        self.dtype: np.dtype[Any] = np.dtype(variable.dtype)
        self.dims = tuple(str(name) for name in variable.dims)
        self.shared = bool(as_flag(variable.attrs.get("shared", False)))
        self.held = int(variable.nbytes)

    def rows(self, start: int, stop: int) -> Values:
        return np.asarray(self._variable[start:stop].values)

    def whole(self) -> Values:
        return np.asarray(self._variable.values)


class DatasetSource:
    """A data set in memory, or one that xarray reads when it is asked."""

    kind = "xarray.Dataset"

    def __init__(self, data: xarray.Dataset) -> None:
        # Not the file that it may have been opened from: it need no longer hold the same.
        self.path = Path("the Dataset")
        self.size = int(data.nbytes)
        self.arrays = {str(name): VariableArray(variable) for name, variable in data.variables.items()}
        self.notes: Mapping[str, Any] = {str(name): value for name, value in data.attrs.items()}

    def close(self) -> None:
        """The caller's to close."""


__all__ = ["DatasetSource", "VariableArray"]
