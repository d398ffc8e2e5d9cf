"""Reference pages made from the code itself: operators from the registry, commands from the command line.

``make docs`` writes them, by ``python -m generator reference`` in docs. The texts are pure functions of the
declarations, so a test can hold that the pages are up to date.
"""
