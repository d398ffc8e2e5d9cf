"""What tells things apart: data and networks (`data`), and callables such as a metric (`code`)."""

from __future__ import annotations

from chop.runs.fingerprint.code import may_be_same, of_callable
from chop.runs.fingerprint.data import (
    axes_of,
    content_key,
    feed_bytes,
    feed_prompt,
    feed_state,
    feed_tensor,
    of_file,
    of_model,
    of_module,
    of_network,
    plain,
    quick,
    written,
)

__all__ = [
    "axes_of", "content_key", "feed_bytes", "feed_prompt", "feed_state", "feed_tensor", "may_be_same",
    "of_callable", "of_file", "of_model", "of_module", "of_network", "plain", "quick", "written",
]  # fmt: skip
