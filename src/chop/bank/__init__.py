"""Pairs that were seen, kept in memory or on disk, from which the examples of questions are chosen."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.bank.bank import Bank
    from chop.bank.pairs import Pairs
    from chop.core.errors import BankError

__all__ = ["Bank", "BankError", "Pairs"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.bank.bank": ("Bank",),
        "chop.bank.pairs": ("Pairs",),
        "chop.core.errors": ("BankError",),
    },
)
