"""A process whose files may not grow: the system answers a write as it does on a full disk."""

import resource
import sys
from contextlib import contextmanager

SMALL_DISK = (
    "import resource, sys; sys.dont_write_bytecode = True; "
    "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, resource.RLIM_INFINITY))"
)
"""For a process of its own, with the bytes a file may have."""


@contextmanager
def small_disk(size):
    """This process, for a while; Python would leave byte code that is cut off, and stumble over it later."""
    before, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes
