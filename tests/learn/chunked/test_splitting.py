"""train_test_split within chunks: sizes, rows and errors as scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import model_selection

import lazyflow.array as la
from lazyflow import config
from lazyflow.learn.chunked.splitting import shares, train_test_split


def fail(*_, **__):
    pytest.fail("an array was gathered")


def computed(parts):
    return [x.compute() if isinstance(x, la.Array) else x for x in parts]


def rows(n, chunks):
    return la.arange(n, chunks=chunks)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(lambda x: sum(x) > 3),
    st.floats(0.1, 0.6), st.floats(0.1, 0.4), st.sampled_from(["test", "train", "both"]),
    st.integers(0, 99), st.booleans(),
)
def test_rows_are_split_once_in_the_sizes_of_scikit_learn(
    lengths, test_size, train_size, which, seed, stratified
):
    n = sum(lengths)
    sizes = {"test_size": test_size, "train_size": train_size}
    sizes = sizes if which == "both" else {f"{which}_size": sizes[f"{which}_size"]}
    try:
        wanted = model_selection.train_test_split(np.arange(n), **sizes)
    except ValueError as error:
        with pytest.raises(ValueError) as got:
            train_test_split(la.arange(n, chunks=(tuple(lengths),)), **sizes)
        assert str(got.value) == str(error)
        return
    labels = np.arange(n) % 3
    x = la.arange(n, chunks=(tuple(lengths),))
    train, test = train_test_split(
        x, **sizes, random_state=seed, stratify=labels if stratified else None
    )
    assert [train.shape, test.shape] == [each.shape for each in wanted]
    everything = np.concatenate([train.compute(), test.compute()])
    assert len(set(everything.tolist())) == len(everything) <= n
    for part, share in (train, len(wanted[0]) / n), (test, len(wanted[1]) / n):
        for k, (length, whole) in enumerate(zip(part.chunks[0], lengths, strict=True)):
            assert abs(length - whole * share) < 2
            begin = sum(lengths[:k])
            block = part.blocks[k].compute()
            assert ((block >= begin) & (block < begin + whole)).all(), "a row left its chunk"


def test_arrays_are_split_alike_and_lazily(monkeypatch):
    loads = []

    def load(block):
        loads.append(len(block))
        return block

    x = np.arange(40.0).reshape(20, 2)
    big = la.map_blocks(load, la.from_array(x, chunks=(6, 1)), dtype=float)
    with monkeypatch.context() as m:
        m.setattr(la.Array, "__array__", fail)
        m.setattr(la.Array, "compute", fail)
        parts = train_test_split(big, la.arange(20, chunks=6), big[..., None], random_state=1)
        assert loads == [] and all(isinstance(part, la.Array) for part in parts)
    x_train, x_test, y_train, y_test, z_train, z_test = computed(parts)
    for part, numbers in (x_train, y_train), (x_test, y_test):
        np.testing.assert_array_equal(part, x[numbers])
    np.testing.assert_array_equal(z_train[..., 0], x_train)
    np.testing.assert_array_equal(z_test[..., 0], x_test)
    assert parts[0].chunks[1] == (1, 1) and set(loads) == {6, 2}


def test_what_is_in_memory_stays_so_and_has_the_same_rows():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": np.arange(11)})
    names = [f"row {i}" for i in range(11)]
    for stratify in None, la.arange(11, chunks=4) % 2, [0, 1] * 5 + [0]:
        parts = train_test_split(
            frame, rows(11, 4), names, random_state=3, test_size=4, stratify=stratify
        )
        for frame_part, numbers, names_part in (parts[::2], parts[1::2]):
            numbers = numbers.compute().tolist()
            assert isinstance(frame_part, pd.DataFrame) and isinstance(names_part, list)
            assert frame_part["a"].tolist() == numbers
            assert names_part == [f"row {i}" for i in numbers]


def test_a_seed_alone_decides_whatever_the_scheduler_and_the_order():
    x = rows(50, 7)
    first = computed(train_test_split(x, random_state=5))
    with config.set(scheduler="sync"):
        again = computed(reversed(train_test_split(x, random_state=5)))[::-1]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    parts = train_test_split(x, random_state=5)
    alone = np.concatenate([parts[0].blocks[k].compute() for k in (0, 1)])
    np.testing.assert_array_equal(alone, first[0][:len(alone)])
    other = computed(train_test_split(x, random_state=6))
    assert first[1].tolist() != other[1].tolist()


def test_random_states_are_used_as_by_scikit_learn():
    x = rows(50, 7)
    state = np.random.RandomState(0)
    first, second = [train_test_split(x, random_state=state)[1].compute() for _ in range(2)]
    assert first.tolist() != second.tolist()
    found = []
    before = np.random.get_state()
    try:
        for _ in range(2):
            np.random.seed(8)
            found.append(train_test_split(x)[1].compute().tolist())
    finally:
        np.random.set_state(before)
    assert found[0] == found[1]


def test_each_row_is_as_likely_as_any_other():
    n, times = 12, 200
    counts = np.zeros(n)
    for seed in range(times):
        _, test = train_test_split(la.arange(n, chunks=((1, 4, 0, 7),)), random_state=seed)
        with config.set(scheduler="sync"):
            counts[test.compute()] += 1
    assert counts.sum() == 3 * times
    assert abs(counts / times - 0.25).max() < 0.13  # more than 4 standard deviations


def test_chunks_are_shuffled():
    train, test = train_test_split(rows(400, 200), random_state=0)
    for part in train, test:
        block = part.blocks[0].compute()
        assert (np.diff(block) < 0).sum() > len(block) / 4
    one, other = [test.blocks[k].compute() % 200 for k in (0, 1)]
    assert one.tolist() != other.tolist(), "chunks draw different rows"


@pytest.mark.parametrize("kind", ["text", "chunked", "columns"])
def test_classes_have_their_share(kind):
    n = 600
    labels = np.where(np.arange(n) % 10 == 0, "rare", np.where(np.arange(n) % 3, "one", "other"))
    stratify = {
        "text": labels, "chunked": la.from_array(labels, chunks=10),
        "columns": la.from_array(np.stack([labels, labels], axis=1), chunks=(10, 1)),
    }[kind]
    train, test = computed(train_test_split(rows(n, 10), stratify=stratify, random_state=0))
    for name in "rare", "one", "other":
        whole = (labels == name).sum()
        assert abs((labels[test] == name).sum() - whole / 4) <= 3
        assert abs((labels[train] == name).sum() - whole * 3 / 4) <= 3


def test_without_shuffling_the_first_rows_are_to_train_with():
    x, numbers = rows(11, 4), np.arange(11)
    for sizes in {}, {"test_size": 3, "train_size": 4}, {"test_size": 0.5}:
        got = computed(train_test_split(x, numbers, shuffle=False, **sizes))
        wanted = model_selection.train_test_split(numbers, numbers, shuffle=False, **sizes)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_lengths_that_are_not_known_are_found_out():
    x = rows(20, 6)
    x = x[x % 3 > 0]
    train, test = train_test_split(x, random_state=0)
    assert (train.shape, test.shape) == ((9,), (4,))
    assert sorted([*train.compute(), *test.compute()]) == x.compute().tolist()


def test_arrays_in_memory_go_to_scikit_learn():
    x = np.arange(20)
    for options in {"random_state": 0}, {"random_state": 0, "stratify": x % 2}, {"shuffle": False}:
        got = train_test_split(x, list(x), **options)
        wanted = model_selection.train_test_split(x, list(x), **options)
        assert [list(part) for part in got] == [list(part) for part in wanted]


@pytest.mark.parametrize("options", [
    {"test_size": 1.5}, {"test_size": 20}, {"test_size": 0.9, "train_size": 0.2},
    {"test_size": "a"}, {"train_size": 15, "test_size": 10}, {"random_state": "a"},
    {"shuffle": "no"}, {"shuffle": False, "stratify": np.arange(20) % 2}, {"train_size": 0},
    {"stratify": np.arange(19)},
])
def test_errors_are_those_of_scikit_learn(options):
    with pytest.raises(ValueError) as wanted:
        model_selection.train_test_split(np.arange(20), **options)
    with pytest.raises(ValueError) as got:
        train_test_split(rows(20, 6), **options)
    assert type(got.value) is type(wanted.value)
    assert str(got.value) == str(wanted.value)


def test_errors_of_arrays():
    words = r"Found input variables with inconsistent numbers of samples: \[4, 3\]"
    for other in la.arange(3), [1, 2, 3]:
        with pytest.raises(ValueError, match=words):
            train_test_split(la.arange(4, chunks=2), other)
    with pytest.raises(ValueError, match=r"\(2, 2\) in one array and \(3, 1\) .* y\.rechunk\("):
        train_test_split(la.arange(4, chunks=2), la.arange(4, chunks=3))
    with pytest.raises(ValueError, match="At least one array required as input"):
        train_test_split()
    with pytest.raises(ValueError, match="At least one array required as input"):
        train_test_split(stratify=la.arange(3))


@given(st.lists(st.integers(0, 50), max_size=8), st.floats(0, 1), st.floats(0, 0.999))
def test_shares_are_proportions_rounded(sizes, part, start):
    total = int(part * sum(sizes))
    found = shares(sizes, total, start)
    assert sum(found) == total
    for size, share in zip(sizes, found, strict=True):
        assert abs(share - size * total / sum(sizes)) < 1 if size else share == 0
