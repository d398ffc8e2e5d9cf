"""Which windows are shown: never one that knows the answer, and the most similar ones exactly."""

import numpy as np
import pytest
from air_records import record, with_values
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.core.errors import DataError, ProblemError
from chop.problems import air
from chop.problems.air import retrieval
from chop.problems.air.windows import usable_windows

PERIOD = ("2022-01-01", "2022-01-21")  # 480 hours
QUERIES = ("2022-01-21", "2022-02-01")
HOURS = 720


def history(hours=HOURS, period=PERIOD, **options):
    return air.prepare(record(hours=hours, **options), period)


def test_windows_and_targets_inside_the_period():
    past = history(missing=0.0)
    for lead in (1, 24):
        ends = air.eligible(past, PERIOD, lead)
        assert ends.tolist() == list(range(23, 480 - lead))
    assert (air.eligible(past, QUERIES, 6, every=6) % 6 == 0).all()
    shifted = history(missing=0.0, start="2022-01-01T05", period=("2022-01-01", "2022-01-21"))
    ends = air.eligible(shifted, QUERIES, 6, every=6)
    hours = shifted.region.times[ends].astype(np.int64) % 24
    assert set(hours.tolist()) == {0, 6, 12, 18}, "by the clock, wherever the record begins"


@pytest.mark.parametrize("channel", [1, 2, 3])
def test_windows_that_saw_too_little_are_left_out(channel):
    region = record(hours=HOURS, missing=0.0, stations=4)
    values = region.values.copy()
    values[100:113, :, channel] = np.nan  # more than half of a window
    values[300, :3, channel] = np.nan  # a target hour seen by one station of four
    past = air.prepare(with_values(region, values), PERIOD)
    ends = set(air.eligible(past, PERIOD, 5).tolist())
    dark = {e for e in range(23, 475) if sum(100 <= h < 113 for h in range(e - 23, e + 1)) > 12}
    silent = {h - 5 for h in (*range(100, 113), 300)}
    assert dark
    assert ends == set(range(23, 475)) - dark - silent
    lenient = set(air.eligible(past, PERIOD, 5, share=0.0).tolist())
    assert lenient == set(range(23, 475)) - {h - 5 for h in range(100, 113)}


def test_all_missing_windows_are_never_used():
    region = record(hours=HOURS, missing=0.0)
    values = region.values.copy()
    values[100:140, :, 1:] = np.nan
    past = air.prepare(with_values(region, values), PERIOD)
    assert not usable_windows(past, share=0.0)[123:140].any()
    values[480:, :, 2] = np.nan
    with pytest.raises(DataError, match=r"no window of small .* is usable at lead 3 h"):
        air.eligible(air.prepare(with_values(region, values), PERIOD), ("2022-01-22", "2022-02-01"), 3)


def test_bad_wishes():
    past = history()
    with pytest.raises(ProblemError, match="lead must be"):
        air.eligible(past, PERIOD, 0)
    with pytest.raises(ProblemError, match="share"):
        air.eligible(past, PERIOD, 1, share=2)
    with pytest.raises(DataError, match="usable windows before it"):
        air.random_examples(past, [27], 1, PERIOD)
    index = air.similarity_index(past, PERIOD, [500])
    with pytest.raises(ProblemError, match="not made for some"):
        air.similar_examples(index, [501], 1)
    with pytest.raises(DataError, match="9999 are needed"):
        air.similar_examples(index, [500], 1, 9999)
    with pytest.raises(ProblemError, match="ends of whole windows"):
        air.similarity_index(past, PERIOD, [5])


def test_random_examples_depend_on_the_seed_and_the_hour_alone():
    past = history()
    ends = air.eligible(past, QUERIES, 6)
    chosen = air.random_examples(past, ends, 6, PERIOD)
    assert chosen.shape == (len(ends), 5)
    np.testing.assert_array_equal(air.random_examples(past, ends[7:9], 6, PERIOD), chosen[7:9])
    np.testing.assert_array_equal(air.random_examples(past, ends[::-1], 6, PERIOD), chosen[::-1])
    assert (air.random_examples(past, ends, 6, PERIOD, seed=1) != chosen).any()
    assert all(len(set(row)) == 5 for row in chosen.tolist()), "without replacement"
    assert set(chosen.flatten().tolist()) <= set(air.eligible(past, PERIOD, 6).tolist())
    longer = air.prepare(record(hours=HOURS, start="2022-01-01"), PERIOD)
    np.testing.assert_array_equal(air.random_examples(longer, ends, 6, PERIOD), chosen)


def test_random_examples_are_uniform():
    past = history(missing=0.0)
    ends = np.repeat(600, 400)
    drawn = np.concatenate(
        [air.random_examples(past, ends[:1], 24, PERIOD, seed=seed) for seed in range(400)]
    ).flatten()
    counts, _ = np.histogram(drawn, bins=8, range=(23, 456))
    assert counts.sum() == 2000
    assert np.abs(counts - 250).max() < 5 * np.sqrt(250)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 6, 24, 72]), st.integers(481, 640))
def test_nothing_after_the_query_changes_what_is_asked(seed, lead, end):
    """Values after the query's last hour change neither statistics nor examples nor windows."""
    region = record(hours=HOURS, seed=seed, missing=0.2, stations=2)
    stream = np.random.default_rng(seed)
    values = region.values.copy()
    future = values[end + 1 :, :, 1:]
    future[:] = np.where(stream.random(future.shape) < 0.5, np.nan, stream.uniform(0, 300, future.shape))
    one, two = air.prepare(region, PERIOD), air.prepare(with_values(region, values), PERIOD)
    np.testing.assert_array_equal(one.scaling.mean, two.scaling.mean)
    np.testing.assert_array_equal(one.scaling.std, two.scaling.std)
    np.testing.assert_array_equal(one.values[: end + 1], two.values[: end + 1])
    np.testing.assert_array_equal(one.observed[: end + 1], two.observed[: end + 1])
    shown = []
    for past in (one, two):
        random = air.random_examples(past, [end], lead, PERIOD, seed=seed)
        similar = air.similar_examples(air.similarity_index(past, PERIOD, [end]), [end], lead)
        shown.append((random, similar))
        for chosen in (random, similar):
            assert (chosen + lead < end).all(), "every example target precedes the query"
            assert (chosen + lead < 480).all(), "and lies in the example period"
    np.testing.assert_array_equal(shown[0], shown[1])


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 24]), st.integers(120, 470))
def test_a_query_inside_the_example_period_is_shown_its_past_only(seed, lead, end):
    region = record(hours=HOURS, seed=seed, missing=0.1, stations=2)
    values = region.values.copy()
    values[end + 1 :, :, 1:] = np.nan
    values[-1] = region.values[-1]
    one, two = air.prepare(region, PERIOD), air.prepare(with_values(region, values), PERIOD)
    chosen = air.random_examples(one, [end], lead, PERIOD, seed=seed)
    assert (chosen + lead < end).all()
    np.testing.assert_array_equal(chosen, air.random_examples(two, [end], lead, PERIOD, seed=seed))


def literal_similar(past, period, queries, ends, lead, count=5):
    """Stack every window, compare all, take the best; ties go to the earlier window."""
    pool = air.eligible(past, period, lead)
    pool = pool[pool + lead < min(queries)]
    values = past.values.astype(np.float64)
    stack = np.stack([values[e - 23 : e + 1].ravel() for e in pool])
    norms = np.linalg.norm(stack, axis=1)
    rows = []
    for end in ends:
        own = values[end - 23 : end + 1].ravel()
        cosine = (stack @ own) / (norms * np.linalg.norm(own))
        rows.append(pool[np.lexsort((pool, -np.round(cosine, 12)))[:count]])
    return np.array(rows)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 5, 24, 72]), st.integers(1, 5), st.booleans())
def test_retrieval_equals_stacking_all_windows(seed, lead, stations, sparse):
    past = history(seed=seed, stations=stations, missing=0.1)
    stream = np.random.default_rng(seed)
    ends = np.sort(stream.choice(np.arange(500, 640), 3 if sparse else 40, replace=False))
    index = air.similarity_index(past, PERIOD, ends)
    asked = stream.permutation(ends)
    expected = literal_similar(past, PERIOD, ends, asked, lead)
    np.testing.assert_array_equal(air.similar_examples(index, asked, lead), expected)


@pytest.mark.parametrize("kept", [1, 5, 20])
def test_an_index_that_kept_too_little_looks_again(kept):
    past = history(missing=0.1)
    ends = np.arange(500, 640, 7)
    index = air.similarity_index(past, PERIOD, ends, kept=kept)
    for lead in (1, 72):
        expected = literal_similar(past, PERIOD, ends, ends, lead)
        np.testing.assert_array_equal(air.similar_examples(index, ends, lead), expected)


def test_equal_windows_tie_and_the_earlier_wins():
    region = record(hours=HOURS, missing=0.0)
    day = region.values[:24]
    past = air.prepare(with_values(region, np.tile(day, (HOURS // 24, 1, 1))), PERIOD)
    ends = np.arange(500, 640)
    index = air.similarity_index(past, PERIOD, ends, kept=8)
    chosen = air.similar_examples(index, ends, 1)
    first = 23 + (ends - 23) % 24
    np.testing.assert_array_equal(chosen, first[:, None] + 24 * np.arange(5))


def test_blocks_do_not_show(monkeypatch):
    past = history()
    ends = np.concatenate([np.arange(500, 560), [600, 640]])
    whole = air.similarity_index(past, PERIOD, ends)
    monkeypatch.setattr(retrieval, "_HOURS_AT_A_TIME", 7)
    monkeypatch.setattr(retrieval, "_EXAMPLES_AT_A_TIME", 50)
    pieces = air.similarity_index(past, PERIOD, ends)
    np.testing.assert_array_equal(whole.ends, pieces.ends)
    np.testing.assert_allclose(whole.similarity, pieces.similarity, atol=1e-6)


def test_the_index_is_kept_on_disk(tmp_path, monkeypatch):
    past, ends = history(), np.arange(500, 640, 6)
    made = air.similarity_index(past, PERIOD, ends, folder=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    assert file.name.startswith("similarity_")

    def no_search(*_):
        raise AssertionError("searched again")

    with monkeypatch.context() as patch:
        patch.setattr(retrieval, "most_similar", no_search)
        again = air.similarity_index(past, PERIOD, ends[::-1], folder=tmp_path / "cache")
        np.testing.assert_array_equal(again.ends, made.ends)
        np.testing.assert_array_equal(again.similarity, made.similarity)
        for other in (
            lambda: air.similarity_index(past, PERIOD, ends[1:], folder=tmp_path / "cache"),
            lambda: air.similarity_index(past, PERIOD, ends, folder=tmp_path / "cache", kept=9),
            lambda: air.similarity_index(history(seed=1), PERIOD, ends, folder=tmp_path / "cache"),
        ):
            with pytest.raises(AssertionError, match="searched again"):
                other()
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for damaged in (b"", whole[:200], bytes(flipped)):
        file.write_bytes(damaged)
        mended = air.similarity_index(past, PERIOD, ends, folder=tmp_path / "cache")
        np.testing.assert_array_equal(mended.ends, made.ends)
        assert file.read_bytes() == whole
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no remains"


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot keep the similarity index"):
        air.similarity_index(history(), PERIOD, [500], folder=tmp_path / "file")


@pytest.mark.parametrize("selection", ["random", "similar"])
def test_questions_of_a_region(selection, tmp_path):
    """A kept index of all questions finds what an index of a few does; a longer lead shows fewer windows."""
    past = history()
    ends = air.eligible(past, QUERIES, 24)
    few = air.RegionQuestions(past, ends, 24, PERIOD, seed=3)
    every = air.RegionQuestions(past, ends, 24, PERIOD, seed=3, index=tmp_path)
    asked = few.take(2, 9)
    np.testing.assert_array_equal(np.sort(few.shuffled()), ends)
    np.testing.assert_array_equal(asked, few.shuffled()[2:11])
    shown = few.examples(asked, selection, 24)
    np.testing.assert_array_equal(every.examples(asked, selection, 24), shown)
    assert (shown + 24 < asked[:, None]).all()
    made = every.case(asked, selection, 6)
    np.testing.assert_array_equal(made.rows["examples"], every.examples(asked, selection, 6))
    if selection == "random":
        np.testing.assert_array_equal(made.rows["examples"], shown, "the same windows at every lead")
    whole = air.sample(past, 9, lead=24, selection=selection, seed=3, first=2, period=PERIOD, queries=QUERIES)
    np.testing.assert_array_equal(whole.rows["examples"], shown)
    with pytest.raises(DataError, match=f"{len(ends)} usable questions .* fewer than the {len(ends) + 1}"):
        few.take(len(ends), 1)
