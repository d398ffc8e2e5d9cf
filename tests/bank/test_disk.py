"""Banks on disk: the same as in memory, one writer and any readers, and all damage is told about."""

import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
from bank_pairs import assert_same, pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from small_disk import small_disk

from chop.bank import Bank, BankError
from chop.bank import segments as segments_module
from chop.storage.log import encode_line


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a.bank"


def segments(folder):
    return sorted(path.name for path in folder.glob("segment-*.h5"))


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data())
def test_any_chunks_are_all_at_once_and_as_in_memory(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("banks") / "a.bank"
    count = data.draw(st.integers(1, 40))
    options = {name: data.draw(st.booleans()) for name in ("masked", "own_points", "timed")}
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64, torch.float16]))
    whole = pairs(count, dtype=dtype, **options)
    cuts = sorted(data.draw(st.sets(st.integers(1, count))) | {count})
    with Bank.create(folder) as made:
        reader = Bank.open(folder)
        assert len(reader) == 0
        for start, stop in zip([0, *cuts], cuts, strict=False):
            assert made.add(whole.cut(start, stop)) == stop
            reader.refresh()
            assert len(reader) == stop
            if data.draw(st.booleans()):
                assert_same(reader.take(range(stop)), whole.cut(0, stop))
    rows = data.draw(st.lists(st.integers(0, count - 1), min_size=1))
    for opened in (reader, Bank.open(folder), Bank.open(folder, writing=True)):
        with opened:
            assert_same(opened.take(rows), whole.take(torch.tensor(rows)))
            blocks = list(opened.blocks(data.draw(st.integers(1, 50))))
            assert [first for first, _ in blocks] == np.cumsum([0, *(len(b) for _, b in blocks)])[
                :-1
            ].tolist()
            for first, block in blocks:
                assert_same(block, whole.cut(first, first + len(block)))


def test_questions_are_those_of_a_bank_in_memory(folder):
    whole = pairs(50, masked=True)
    memory = Bank.of(whole)
    with Bank.create(folder, whole.cut(0, 20)) as disk:
        disk.add(whole.cut(20, 50))
        queries = pairs(6, seed=5).inputs
        for by in ("similar", "random", "recent", "spread"):
            one = memory.prompts(queries, 4, by, times=np.arange(30, 36))
            other = disk.prompts(queries, 4, by, times=np.arange(30, 36))
            for a, b in zip(one.tensors(), other.tensors(), strict=True):
                assert torch.equal(a, b)
            assert torch.equal(one.times, other.times)
        assert torch.equal(memory.question([40], 3)[0].inputs.values, disk.question([40], 3)[0].inputs.values)


def test_large_additions_are_cut_into_files(folder, monkeypatch):
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES", 560)  # ten rows
    whole = pairs(35)
    with Bank.create(folder, whole) as made:
        assert len(segments(folder)) == 4
        assert_same(made.take(range(35)), whole)


def test_small_files_are_merged_while_readers_read(folder, monkeypatch):
    monkeypatch.setattr(segments_module, "MANY", 5)
    whole = pairs(60)
    with Bank.create(folder, whole.cut(0, 1)) as made:
        late, early = Bank.open(folder), Bank.open(folder)
        for row in range(1, 30):
            made.add(whole.cut(row, row + 1))
            if row == 3:
                early.refresh()
                late.refresh()
                late.take([0])
                running = early.blocks(1)
                next(running)
        assert len(segments(folder)) <= 6
        assert_same(late.take([3, 0]), whole.take(torch.tensor([3, 0])))
        assert [first for first, _ in running] == [1, 2, 3], "as many as there were when it began"
        assert len(late) >= 4
        assert torch.equal(made.known, whole.known[:30])
        assert torch.equal(late.known, whole.known[: len(late)])
    with Bank.open(folder, writing=True) as again:
        assert len(again) == 30
        assert_same(again.take(range(30)), whole.cut(0, 30))


def test_small_files_are_merged_when_a_writer_opens(folder):
    whole = pairs(12)
    with Bank.create(folder) as made:
        for row in range(12):
            made.add(whole.cut(row, row + 1))
        assert len(segments(folder)) == 12
    Bank.open(folder).close()
    assert len(segments(folder)) == 12, "a reader changes nothing"
    with Bank.open(folder, writing=True) as made:
        assert len(segments(folder)) == 1
        assert_same(made.take(range(12)), whole)


def test_files_that_no_line_names_are_removed_by_the_next_writer(folder):
    Bank.create(folder, pairs(3)).close()
    left = [folder / "segment-000000000003-5-9.h5", folder / ".segment-000000000003-5-9.h5.abc.partial"]
    for path in left:
        path.write_bytes(b"torn")
    (folder / "notes.txt").write_text("mine")
    with Bank.open(folder) as reader:
        assert len(reader) == 3
        assert all(path.exists() for path in left)
    Bank.open(folder, writing=True).close()
    assert not any(path.exists() for path in left)
    assert (folder / "notes.txt").exists()


def test_one_writer_and_many_readers(folder):
    with Bank.create(folder, pairs(3)) as made:
        with pytest.raises(BankError, match="another process is writing"):
            Bank.open(folder, writing=True)
        readers = [Bank.open(folder) for _ in range(3)]
        with pytest.raises(BankError, match="opened for reading"):
            readers[0].add(pairs(1))
        made.add(pairs(2))
        for reader in readers:
            assert len(reader) == 3, "until it is refreshed"
            reader.refresh()
            assert len(reader) == 5
    with pytest.raises(BankError, match="opened for reading"):
        made.add(pairs(1))
    with pytest.raises(BankError, match="is closed"):
        made.take([0])
    Bank.open(folder, writing=True).close()


def test_a_torn_last_line_is_cut_off(folder):
    Bank.create(folder, pairs(3)).close()
    log = folder / "bank.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'0000 {"seg')
    assert len(Bank.open(folder)) == 3
    with Bank.open(folder, writing=True) as made:
        assert log.read_bytes() == whole
        assert made.add(pairs(1)) == 4


def test_every_flipped_byte_is_told_about(folder):
    whole = pairs(20)
    Bank.create(folder, whole).close()
    (name,) = segments(folder)
    stream = np.random.default_rng(0)
    for path in (folder / name, folder / "shape.h5"):
        good = path.read_bytes()
        for place in stream.integers(0, len(good), size=25):
            bad = bytearray(good)
            bad[place] ^= 1 << int(stream.integers(8))
            path.write_bytes(bytes(bad))
            with pytest.raises(BankError, match=r"is damaged \(its checksum is wrong\)"):
                Bank.open(folder).take([0])
        path.write_bytes(good[:-1])
        with pytest.raises(BankError, match="is damaged"):
            Bank.open(folder).take([0])
        path.write_bytes(good)
    assert_same(Bank.open(folder).take(range(20)), whole)


def test_a_missing_file_is_named(folder):
    Bank.create(folder, pairs(3)).close()
    (name,) = segments(folder)
    (folder / name).unlink()
    with Bank.open(folder) as reader, pytest.raises(BankError, match=f"{name} is missing"):
        reader.take([0])


def rewritten(folder, change):
    """The log with other lines, each with its checksum."""
    log = folder / "bank.jsonl"
    lines = [json.loads(line[9:]) for line in log.read_text().splitlines()]
    log.write_bytes(b"".join(map(encode_line, change(lines) or lines)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[0].update(format="chop-bank-9"), "not a bank of the format chop-bank-1"),
        (lambda lines: lines[1]["form"].update(dtype="object"), "line 2 is odd"),
        (lambda lines: lines[1]["form"].update(axes=[["x", -1.0, True, True]]), "positive finite period"),
        (lambda lines: lines[1]["form"].update(inputs=[5, 3]), "are not"),
        (lambda lines: lines[1]["form"].update(inputs=[50, 2]), "is damaged"),
        (lambda lines: lines[2]["segment"].update(file="../../etc/passwd"), "line 3 is odd"),
        (lambda lines: lines[2]["segment"].update(rows=10**9), "is damaged"),
        (lambda lines: lines[2]["segment"].update(rows=-1), "line 3 is odd"),
        (lambda lines: lines[2]["segment"].update(first=1), "does not fit the lines before"),
        (lambda lines: lines[2]["segment"].update(replaces=["segment-1.h5"]), "does not fit|names"),
        (lambda lines: lines[1:], "not a bank of the format"),
        (lambda lines: [lines[0], lines[2]], "before the form"),
        (lambda lines: [*lines, lines[2]], "twice"),
        (lambda lines: [*lines, {"segment": 3}], "line 4 is odd"),
        (lambda lines: [*lines, [1]], "line 4 is odd"),
    ],
)
def test_odd_lines_are_told_about(folder, change, words):
    Bank.create(folder, pairs(3)).close()
    rewritten(folder, change)
    with pytest.raises(BankError, match=words) as told:
        Bank.open(folder).take([0])
    assert "\n" not in str(told.value)


def test_a_damaged_line_is_told_about(folder):
    Bank.create(folder, pairs(3)).close()
    log = folder / "bank.jsonl"
    for line in range(3):
        lines = log.read_bytes().splitlines(keepends=True)
        good = b"".join(lines)
        lines[line] = lines[line].replace(b'"', b"'", 1)
        log.write_bytes(b"".join(lines))
        with pytest.raises(BankError, match=f"line {line + 1}"):
            Bank.open(folder, writing=True)
        assert log.read_bytes() == b"".join(lines), "nothing is changed"
        log.write_bytes(good)


def test_what_a_stranger_hid_in_a_file_is_not_read(folder):
    Bank.create(folder, pairs(3)).close()
    (name,) = segments(folder)
    path = folder / name
    path.chmod(0o644)
    with h5py.File(path, "a") as file:
        del file["inputs"]
        file["inputs"] = h5py.ExternalLink("/etc/hostname", "/x")

    def trust(lines):
        content = path.read_bytes()
        import zlib

        lines[2]["segment"].update(bytes=len(content), crc=zlib.crc32(content))

    rewritten(folder, trust)
    with pytest.raises(BankError, match="link to another file"):
        Bank.open(folder).take([0])


def test_not_a_bank(folder, tmp_path):
    with pytest.raises(BankError, match="there is no folder"):
        Bank.open(folder)
    folder.mkdir()
    with pytest.raises(BankError, match=r"holds no bank\.jsonl"):
        Bank.open(folder, writing=True)
    (folder / "bank.jsonl").write_bytes(b"")
    with pytest.raises(BankError, match="is empty"):
        Bank.open(folder)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(BankError, match="is a file"):
        Bank.create(file)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("x")
    with pytest.raises(BankError, match="other things in it"):
        Bank.create(other)
    assert (other / "mine").read_text() == "x"


def test_a_bank_is_replaced_only_if_asked(folder):
    Bank.create(folder, pairs(5)).close()
    with pytest.raises(BankError, match="is a bank already"):
        Bank.create(folder)
    with Bank.create(folder, pairs(2, channels=1), overwrite=True) as made:
        assert len(made) == 2
        assert len(segments(folder)) == 1
    with Bank.create(folder, overwrite=True), pytest.raises(BankError, match="another process is writing"):
        Bank.create(folder, overwrite=True)


def test_an_empty_bank_says_so(folder):
    with Bank.create(folder) as made:
        assert (len(made), made.asked, list(made.blocks())) == (0, None, [])
        for call in (lambda: made.examples(np.ones((1, 5))), lambda: made.form, lambda: made.likeness):
            with pytest.raises(BankError, match="is empty: add pairs first"):
                call()
        assert "pairs 0" in repr(made)


def test_a_full_disk_loses_nothing(folder):
    whole = pairs(4000)
    with Bank.create(folder, whole.cut(0, 10)) as made:
        before = sorted(folder.iterdir())
        with small_disk(8000), pytest.raises(BankError, match="make room and repeat"):
            made.add(whole.cut(10, 4000))
        assert sorted(folder.iterdir()) == before
        assert len(made) == 10
        size = (folder / "bank.jsonl").stat().st_size
        with small_disk(size + 20), pytest.raises(BankError, match="make room"):
            made.add(whole.cut(10, 11))
        assert sorted(folder.iterdir()) == before
        assert made.add(whole.cut(10, 20)) == 20
        assert_same(made.take(range(20)), whole.cut(0, 20))


def test_first_pairs_that_could_not_be_written_decide_nothing(folder):
    with Bank.create(folder) as made:
        with small_disk(30000), pytest.raises(BankError, match="make room"):
            made.add(pairs(4000))
        assert len(Bank.open(folder)) == 0
        assert made.add(pairs(3, channels=1, timed=False)) == 3
    assert Bank.open(folder).form.input_channels == 1


def test_a_merge_that_fails_fails_no_addition(folder, monkeypatch):
    monkeypatch.setattr(segments_module, "MANY", 2)
    whole = pairs(6)
    with Bank.create(folder, whole.cut(0, 1)) as made:
        real = segments_module.DiskPairs._replace

        def full(*_):
            raise BankError("no room")

        monkeypatch.setattr(segments_module.DiskPairs, "_replace", full)
        for row in range(1, 6):
            assert made.add(whole.cut(row, row + 1)) == row + 1
        monkeypatch.setattr(segments_module.DiskPairs, "_replace", real)
    with Bank.open(folder) as reader:
        assert_same(reader.take(range(6)), whole)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(folder):
    Bank.create(folder, pairs(3)).close()
    folder.chmod(0o555)
    try:
        assert len(Bank.open(folder)) == 3
        with pytest.raises(BankError, match="ermission"):
            Bank.open(folder, writing=True).add(pairs(1))
    finally:
        folder.chmod(0o755)


def test_a_copy_elsewhere_is_the_same_bank(folder, tmp_path):
    Bank.create(folder, pairs(5)).close()
    shutil.copytree(folder, tmp_path / "copy")
    with Bank.open(tmp_path / "copy", writing=True) as made:
        assert made.add(pairs(1)) == 6


READER = """
import sys
from chop.bank import Bank
with Bank.open(sys.argv[1]) as bank:
    seen = 0
    while seen < int(sys.argv[2]):
        bank.refresh()
        assert len(bank) >= seen
        seen = len(bank)
        if seen:
            found = bank.take(range(seen))
            assert found.asked.tolist() == list(range(seen))
print("done")
"""


@pytest.mark.slow
def test_a_reader_sees_prefixes_while_another_process_adds(folder, monkeypatch):
    monkeypatch.setattr(segments_module, "MANY", 4)
    whole = pairs(40)
    with Bank.create(folder) as made:
        process = subprocess.Popen(
            [sys.executable, "-c", READER, str(folder), "40"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for row in range(40):
            made.add(whole.cut(row, row + 1))
        said, told = process.communicate(timeout=60)
    assert said == b"done\n", told.decode()
