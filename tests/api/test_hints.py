"""Names and keywords of dask.distributed get words that name ours."""

import pytest

import lazyflow as lf


@pytest.mark.parametrize(("name", "words"), [
    ("Client", "lazyflow.config.set(scheduler=client)"),
    ("cluster", "lazyflow.config.set(num_workers=4)"), ("get_client", "without a client"),
    ("sync", "future.result()"), ("scatter", "lazyflow.put(value)"),
])
def test_names(name, words):
    with pytest.raises(AttributeError) as caught:
        getattr(lf, name)
    assert words in str(caught.value)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: lf.submit(lambda x: x, 1, pure=False), "every call runs, equal ones too"),
    (lambda: lf.submit(divmod, 7, 2, priority=3), "submit(delayed(divmod, priority=3), ...)"),
    (lambda: lf.map(abs, [1], pure=False), "'pure': every call runs"),
    (lambda: lf.map(abs, [1], priority=3), "map(delayed(f, priority=...), ...)"),
    (lambda: lf.map(abs, [1], batch_size=3), "it is called batch="),
    (lambda: lf.map(abs, [1], nonsense=3), "unexpected keyword argument 'nonsense'"),
])
def test_keywords(call, words):
    with pytest.raises(TypeError) as caught:
        call()
    assert words in str(caught.value)


def test_keywords_that_are_the_functions_own_reach_it():
    assert lf.submit(sorted, [1, -2], key=abs).result() == [1, -2]
    assert lf.submit(lambda pure, **more: (pure, more), pure=1, key=2).result() == (1, {"key": 2})
