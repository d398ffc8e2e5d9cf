"""The desk: jobs of many tabs on a few processes, cancelled, crashed and refused without harm."""

import asyncio
import os
import time
from dataclasses import dataclass

import pytest

from chop.studio.desk import Desk
from chop.studio.jobs import Refused

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class MakeToy:
    """Work whose job is what to do."""

    def __call__(self):
        return toy


def toy(job):
    match job:
        case ("sleep", seconds):
            time.sleep(seconds)
        case ("die",):
            os._exit(1)
        case ("raise",):
            raise RuntimeError("a bug")
    return (job, os.getpid())


@pytest.fixture
def desk():
    made = Desk(MakeToy(), workers=2)
    made.start([("warm", 0), ("warm", 1)])
    yield made
    made.close()


def test_jobs_of_several_tabs(desk):
    async def tabs():
        await desk.ask(("hello",))
        slow = asyncio.create_task(desk.ask(("sleep", 20)))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        quick = [await desk.ask(("quick", i)) for i in range(3)]
        waited = time.monotonic() - begun
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        after = await asyncio.gather(*(desk.ask(("after", i)) for i in range(4)))
        return quick, waited, after

    quick, waited, after = asyncio.run(tabs())
    assert [job for job, _ in quick] == [("quick", i) for i in range(3)]
    assert waited < 20, "a long job of one tab does not hold up another's"
    assert [job for job, _ in after] == [("after", i) for i in range(4)]


def test_a_job_that_takes_its_worker_down_is_a_sentence(desk):
    async def wrong():
        died = await desk.ask(("die",))
        raised = await desk.ask(("raise",))
        return died, raised, await desk.ask(("well",))

    died, raised, well = asyncio.run(wrong())
    assert isinstance(died, Refused)
    assert "died" in died.sentence
    assert isinstance(raised, Refused)
    assert "a bug" in raised.sentence
    assert well[0] == ("well",)


def test_too_slow_is_a_sentence():
    desk = Desk(MakeToy(), workers=1, seconds=0.5)
    desk.start()
    try:
        outcome = asyncio.run(desk.ask(("sleep", 30)))
    finally:
        desk.close()
    assert isinstance(outcome, Refused)
    assert "0.5 s" in outcome.sentence
