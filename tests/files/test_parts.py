"""What is asked of a file: everything once, cut the same way every time, and no more in vain than needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chop.files.parts import TRIALS, PartQueue, remaining_parts


def asked(total, size, fails, done=(), workers=1):
    """Ask until nothing is left; ``fails(part)`` says what is not answered. Kept, rejected, trials."""
    kept, rejected, trials = dict.fromkeys(done, True), {}, []

    def reject(part, error):
        rejected[part] = str(error)

    queue = PartQueue(remaining_parts(total, size, done), total, bool(done), reject)
    under_way = []
    while True:
        while len(under_way) < workers and (given := queue.take()) is not None:
            under_way.append(given)
        if not under_way:
            return kept, rejected, trials
        (part, trial), job = under_way.pop()
        assert part == job
        if trial:
            trials.append(part)
        if fails(part):
            if trial:
                queue.trial_failed(died=False)
            else:
                queue.failed(part, ValueError(f"{part.first} to {part.last}"))
        else:
            if not trial:
                kept[part] = True
            queue.answered()


def numbers(parts):
    return sorted(n for part in parts for n in range(part.first, part.last))


@given(st.integers(1, 90), st.integers(1, 40), st.sets(st.integers(0, 89)), st.integers(1, 3))
def test_the_questions_at_fault_are_found_and_all_others_answered(total, size, bad, workers):
    bad = {n for n in bad if n < total}

    def fails(part):
        return any(part.first <= n < part.last for n in bad)

    if len(bad) == total:
        with pytest.raises(ValueError, match=r"^0 to "):
            asked(total, size, fails)
        return
    kept, rejected, _ = asked(total, size, fails, workers=workers)
    assert sorted(numbers(kept) + numbers(rejected)) == list(range(total))
    assert numbers(rejected) == sorted(bad)
    assert all(len(part) == 1 for part in rejected)


@given(st.integers(1, 90), st.integers(1, 40), st.sets(st.integers(0, 89), max_size=4), st.data())
def test_what_is_asked_together_does_not_depend_on_what_is_done(total, size, bad, data):
    def fails(part):
        return any(part.first <= n < part.last for n in bad)

    if total <= len(bad):
        return
    kept, rejected, _ = asked(total, size, fails)
    before = data.draw(st.sets(st.sampled_from(sorted(kept)), min_size=1))
    again, rejected_again, _ = asked(total, size, fails, done=before)
    assert (again.keys(), rejected_again.keys()) == (kept.keys(), rejected.keys())


def test_where_nothing_can_be_answered_few_questions_are_asked():
    calls = []

    def fails(part):
        calls.append(part)
        return True

    with pytest.raises(ValueError, match=r"^0 to 256$"):
        asked(1_000_000, 256, fails)
    assert len(calls) == 1 + TRIALS


def test_a_few_questions_that_work_are_enough_to_go_on():
    """However the bad ones lie: the tries are drawn, not evenly spaced."""
    kept, rejected, trials = asked(300, 300, lambda part: len(part) > 1 or part.first % 10 != 9)
    assert numbers(kept) == list(range(9, 300, 10))
    assert len(rejected) == 270
    assert 1 <= len(trials) <= TRIALS
