"""Files of lines: one writer at a time, on every system; locks end with their process, out of the way."""

import signal
import subprocess
import sys

import pytest

from chop.core.errors import ChopError
from chop.storage.log import AppendLog, OwnsLog, encode_line
from chop.storage.schema import safe_int

HOLD = (
    "import sys, time; from pathlib import Path\n"
    "from chop.core.errors import ChopError; from chop.storage.log import AppendLog\n"
    "lines = AppendLog(Path(sys.argv[1]), ChopError); lines.append([{'a': 1}]); print('held', flush=True)\n"
    "time.sleep(600)"
)
BUSY = "another process is writing to .*; wait or use another folder"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def holder(tmp_path):
    """A process that writes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a.jsonl")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_is_told_and_a_reader_is_not(holder, tmp_path):
    with pytest.raises(ChopError, match=BUSY):
        AppendLog(tmp_path / "a.jsonl", ChopError)
    assert AppendLog(tmp_path / "a.jsonl", ChopError, writing=False).contents == [{"a": 1}]
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    with pytest.raises(ChopError, match=BUSY):
        AppendLog(tmp_path / "link.jsonl", ChopError)
    AppendLog(tmp_path / "b.jsonl", ChopError).close()
    AppendLog(tmp_path / "other" / "a.jsonl", ChopError).close()


def test_a_lock_ends_with_its_process_however_that_ends(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lines = AppendLog(tmp_path / "a.jsonl", ChopError)
    lines.append([{"a": 2}])
    lines.close()
    assert names(tmp_path) == ["a.jsonl"], "what the killed process left is gone too"


def test_nothing_but_the_file_is_left(tmp_path):
    path = tmp_path / "a.jsonl"
    for _ in range(2):
        lines = AppendLog(path, ChopError)
        with pytest.raises(ChopError, match=BUSY):
            AppendLog(path, ChopError)
        assert all(name.startswith(".") for name in names(tmp_path) if name != "a.jsonl")
        lines.close()
        lines.close()
        assert names(tmp_path) == ["a.jsonl"]


def test_many_processes_that_come_and_go_never_write_at_once(tmp_path):
    """Each takes the lock many times; whoever has it finds nobody else's mark."""
    code = (
        "import sys; from pathlib import Path\n"
        "from chop.core.errors import ChopError; from chop.storage.log import AppendLog\n"
        "folder, done = Path(sys.argv[1]), 0\n"
        "while done < 60:\n"
        "    try:\n        lines = AppendLog(folder / 'a.jsonl', ChopError)\n"
        "    except ChopError:\n        continue\n"
        "    (folder / 'inside').touch(exist_ok=False)\n"
        "    lines.append([{'a': done}]); done += 1\n"
        "    (folder / 'inside').unlink(); lines.close()\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [process.wait() for process in both] == [0, 0, 0]
    assert len(AppendLog(tmp_path / "a.jsonl", ChopError, writing=False).contents) == 180
    assert names(tmp_path) == ["a.jsonl"]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ChopError, match=r"a\.jsonl: "):
        AppendLog(tmp_path / "file" / "a.jsonl", ChopError)


class Owner(OwnsLog):
    """What a folder holds: a head, then numbers."""

    def __init__(self, folder, head=None, schema=None):
        with self._opened(folder / "a.jsonl", ChopError, "numbers", head) as log:
            self.head = log.contents[0]
            self.found = dict(log.records(lambda _: ("number", schema or {"a": safe_int}), after=1))
            self.damaged = log.damaged


def test_an_owner_begins_goes_on_and_reads(tmp_path):
    with pytest.raises(ChopError, match=r"holds no numbers \(a\.jsonl is missing\)"):
        Owner(tmp_path)
    with Owner(tmp_path, {"seed": 0}) as new:
        assert (new.head, new.found) == ({"seed": 0}, {})
        new._log.append([{"a": 1}, {"a": 2}])
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b"00000000 {}\n" + encode_line({"a": 3}) + b"torn")
    for head in ({"seed": 1}, None):
        with Owner(tmp_path, head) as old:
            assert (old.head, old.damaged) == ({"seed": 0}, 1)
            assert old.found == {2: {"a": 1}, 3: {"a": 2}, 5: {"a": 3}}


def test_an_odd_line_is_told_with_its_number_and_the_log_let_go(tmp_path):
    Owner(tmp_path, {"seed": 0}).close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.jsonl").touch()
    with pytest.raises(ChopError, match="is empty"):
        Owner(tmp_path / "empty")
    with Owner(tmp_path, {}) as log:
        log._log.append([{"a": 1}, {"a": "x"}])
    with pytest.raises(ChopError, match=r"a\.jsonl, line 3 is no number: it has an odd a; use another"):
        Owner(tmp_path, {})
    assert names(tmp_path) == ["a.jsonl", "empty"], "no lock is left"
    Owner(tmp_path, {}, schema={"a": lambda value: True}).close()


def test_no_module_of_one_system_alone_is_needed():
    code = "import sys; sys.modules['fcntl'] = None; import chop.storage.log, chop.bench.store"
    subprocess.run([sys.executable, "-c", code], check=True)
