"""Which generated programs are worth running: views of views of views take long even to be counted."""

from chop.core.errors import ProgramError


def needs_at_most(program, calls, examples=5):
    """Whether a program needs no more model evaluations than that."""
    try:
        return program.calls(examples, limit=calls) <= calls
    except ProgramError:
        return False
