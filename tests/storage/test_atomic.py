"""Files that are whole or not there."""

import ast
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import chop
from chop.core.errors import ChopError
from chop.files import FileError
from chop.storage.atomic import NewHdf5, atomic_path, check_writable, make_folder, write_bytes, write_text


def test_what_is_written_appears_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path, FileError) as partial:
        partial.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    with atomic_path(path, FileError, overwrite=True) as partial:
        partial.write_text("newer")
        assert path.read_text() == "new"
    assert path.read_text() == "newer"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_one_line_writes_a_file_and_its_folder(tmp_path):
    path = tmp_path / "new" / "a.txt"
    assert write_text(path, "ρ\n", FileError) == path
    assert path.read_bytes() == "ρ\n".encode()
    with pytest.raises(FileError, match="exists already"):
        write_bytes(path, b"other", FileError)
    write_bytes(path, b"other", FileError, overwrite=True)
    assert path.read_bytes() == b"other"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]
    with pytest.raises(FileError, match=r"a\.txt cannot be written: File exists"):
        make_folder(path, FileError)
    with pytest.raises(FileError, match=r"a\.txt cannot be written: File exists"):
        write_text(path / "b.txt", "", FileError)


def test_a_name_of_ones_own_is_written_under(tmp_path):
    with atomic_path(tmp_path / "a.txt", FileError, partial=tmp_path / "half") as partial:
        assert partial == tmp_path / "half"
        partial.write_text("new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


IN_MEMORY = {"packed", "drawn"}
ELSEWHERE = {"evolution/journal.py"}
"""A damaged journal is copied aside."""
WRITES = {
    "write_text",
    "write_bytes",
    "savefig",
    "copyfile",
    "copy2",
    "savez",
    "savez_compressed",
    "save_file",
}


def goes_around(call):
    """Whether a call writes a file under another name than the one that `atomic_path` gives out."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name = call.func.attr
    mode = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if name == "open":
        if not (isinstance(mode, str) and mode.startswith(("w", "x"))):
            return False
        given = call.func.value
    elif name in ("write_text", "write_bytes"):
        given = call.func.value
    elif name in WRITES:
        given = call.args[0]
    else:
        return False
    return not (isinstance(given, ast.Name) and given.id in {"partial", "file", *IN_MEMORY})


def test_nobody_goes_around_the_writer():
    home = Path(chop.__file__).parent
    found = []
    for path in home.rglob("*.py"):
        if path.relative_to(home).as_posix() in ELSEWHERE:
            continue
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        found += [f"{path.relative_to(home)}:{call.lineno}" for call in calls if goes_around(call)]
    assert found == []


def test_going_around_the_writer_is_seen():
    def seen(code):
        return goes_around(ast.parse(code).body[0].value)

    assert seen("path.write_text('a')")
    assert seen("figure.savefig(path)")
    assert seen("path.open('wb')")
    assert seen("shutil.copyfile(a, b)")
    assert not seen("partial.write_text('a')")
    assert not seen("path.open('ab')")


def interrupted(path):
    with atomic_path(path, FileError, overwrite=True) as partial:
        partial.write_text("new")
        raise KeyboardInterrupt


def test_an_interruption_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_the_error_is_of_the_kind_asked_for(tmp_path):
    class OwnError(ChopError):
        pass

    with pytest.raises(OwnError, match="is a folder"):
        check_writable(tmp_path, OwnError)


def test_hdf5_written_through_it_is_hdf5(tmp_path):
    values = np.random.default_rng(0).random((500, 70))
    with NewHdf5(tmp_path / "a.h5") as new:
        data = new.file.create_dataset("u", (0, 70), "f8", maxshape=(None, 70), chunks=(16, 70))
        for row in range(0, 500, 50):
            data.resize(row + 50, axis=0)
            data[row:] = values[row : row + 50]
            new.check()
        new.file.attrs["complete"] = True
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["u"], values)
        assert file.attrs["complete"]


FULL = """
import resource, sys
sys.dont_write_bytecode = True
from pathlib import Path
import numpy as np
from chop.storage.atomic import NewHdf5

def fill(path, patience):
    with NewHdf5(path) as new:
        grown = new.file.create_dataset("u", (0, 70), "f8", maxshape=(None, 70), chunks=(16, 70))
        for row in range(0, 400, 50):
            grown.resize(row + 50, axis=0)
            grown[row:] = np.ones((50, 70))
            if row >= patience:
                new.check()
        new.file["v"] = np.ones((100, 100))
        new.file.attrs["complete"] = True

failures = 0
for limit in range(0, 280_000, 7_001):
    for patience in (0, 200, 10_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            fill(Path(sys.argv[1]), patience)
        except OSError as error:
            assert error.strerror == "File too large", error
            failures += 1
print(failures)
"""


def test_hdf5_on_a_full_disk_fails_in_good_order(tmp_path):
    """Wherever the disk is full: an error each time, and the process lives on."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "a.h5")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == 3 * len(range(0, 280_000, 7_001))
