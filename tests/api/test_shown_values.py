"""What is given to a task is shown where the user wants it shown, and nowhere else."""

import operator
import re

import pytest
from engine_schedulers import SCHEDULERS

import lazyflow
from lazyflow import actor, annotate, compute, config, delayed, visualize

SECRET = "hunter2"


def login(user, password, *more, retry=0, **rest):
    raise ValueError("no")


def passed_on(*args, **kwargs):
    return login(*args, **kwargs)


class Account:
    def login(self, user, password):
        raise ValueError("no")


def note_of(call):
    with pytest.raises(ValueError, match="no") as caught:
        call()
    (note,) = caught.value.__notes__
    return re.search(r"task (.*), made at", note)[1]


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    with config.set(scheduler=request.param):
        yield request.param


# Calls by all the ways in which an argument comes to a task; the second is the text of errors.
CALLS = [
    (lambda f: f("bob", SECRET), "login('bob', {})"),
    (lambda f: f("bob", password=SECRET), "login('bob', password={})"),
    (lambda f: f(password=SECRET, user="bob"), "login(password={}, user='bob')"),
    (lambda f: f("bob", delayed(SECRET)), "login('bob', {})"),
    (lambda f: f("bob", delayed(str)(SECRET)), "login('bob', {})"),
    (lambda f: f(delayed(str)("bob"), password=delayed(SECRET)), "login('bob', password={})"),
    (lambda f: f(["bob"], SECRET, retry=2), "login(list of 1, {}, retry=2)"),
    (lambda f: f("bob", SECRET, 1, delayed(2)), "login('bob', {}, 1, 2)"),
]
HIDING = [
    {"hide": "password"}, {"hide": ["password", "rest"]}, {"hide": ("password",), "pure": True},
]


class TestNotes:
    @pytest.mark.parametrize("call", CALLS)
    def test_of_errors(self, scheduler, call):
        make, text = call
        hidden = text.format("<hidden>")
        assert note_of(make(delayed(login)).compute) == text.format(repr(SECRET))
        for options in HIDING:
            assert note_of(make(delayed(login, **options)).compute) == hidden
        with annotate(hide="password"):
            lazy = make(delayed(login))
        assert note_of(lambda: compute(lazy)) == hidden
        with config.set(show_values="none"):
            note = note_of(make(delayed(login)).compute)
        assert "str" in note
        assert not re.search(r"[0-9']", note.replace("list of 1", ""))

    def test_of_submitted_calls(self, scheduler):
        assert SECRET in note_of(lazyflow.submit(login, "bob", SECRET).result)
        future = lazyflow.submit(delayed(login, hide="password"), "bob", SECRET)
        assert note_of(future.result) == "login('bob', <hidden>)"
        with config.set(show_values="none"):
            assert note_of(lazyflow.submit(login, "bob", SECRET).result) == "login(str, str)"

    def test_of_actors(self, scheduler):
        account = actor(Account)()
        assert SECRET in note_of(account.login("bob", SECRET).result)
        with annotate(hide="password"):
            futures = [account.login("bob", SECRET), account.login(user="bob", password=SECRET)]
        assert [note_of(each.result) for each in futures] == [
            "Account.login(<hidden>, <hidden>)",  # methods are looked up by the actor
            "Account.login(user='bob', password=<hidden>)",
        ]

    @pytest.mark.parametrize("owner", ["threads", "processes"])
    def test_of_actors_that_another_process_has_made(self, owner):
        account = actor(Account, scheduler=owner)()

        def logs_in(handle, way):
            secret = delayed(SECRET, hide=True) if way == "hidden" else SECRET
            with annotate(hide="password") if way == "named" else annotate():
                return note_of(handle.login("bob", password=secret).result)

        with config.set(scheduler="processes"):
            ways = [delayed(logs_in)(account, way) for way in ("named", "hidden", "shown")]
            named, hidden, shown = compute(*ways)
        assert named == "Account.login(<hidden>, password=<hidden>)"
        assert hidden == named
        assert SECRET in shown

    def test_the_result_of_a_hidden_task(self, scheduler):
        token = delayed(str.upper, hide=True)(SECRET)
        assert note_of(delayed(login)("bob", token).compute) == "login('bob', <hidden>)"
        users = [delayed(login)("bob", token) for _ in range(50)]  # in several groups of a cluster
        assert note_of(lambda: compute(*users)) == "login('bob', <hidden>)"
        kept = delayed(SECRET, hide=True)
        assert note_of(delayed(login)("bob", password=kept).compute) == (
            "login('bob', password=<hidden>)")

    def test_what_can_not_be_told_from_it_is_hidden(self):
        f = delayed(passed_on, hide="password")
        assert note_of(f("bob", SECRET).compute) == "passed_on(<hidden>, <hidden>)"
        named = f("bob", password=SECRET)
        assert note_of(named.compute) == "passed_on(<hidden>, password=<hidden>)"
        rest = delayed(login, hide="rest")
        assert note_of(rest("bob", "x", key=SECRET).compute) == "login('bob', 'x', key=<hidden>)"
        more = delayed(login, hide="more")
        assert note_of(more("bob", "x", SECRET).compute) == "login('bob', 'x', <hidden>)"


class TestOptions:
    def test_a_misspelt_parameter(self):
        with pytest.raises(TypeError, match="no such parameter; did you mean 'password'"):
            delayed(Account.login, hide="pasword")
        delayed(passed_on, hide="pasword")  # may be there

    @pytest.mark.parametrize("given", [1, [1], None])
    def test_wrong_kinds(self, given):
        with pytest.raises(TypeError, match="hide must be the name of a parameter"):
            delayed(login, hide=given)

    def test_settings(self):
        with pytest.raises(ValueError, match='show_values must be "scalars", "none" or None'):
            config.set(show_values="all")


def pages(folder):
    """Return by name whatever shows tasks, for calls that get the secret by every way."""
    def captures(text):
        return delayed(lambda: len(text))()

    lazy = [
        delayed(passed_on)("bob", SECRET), delayed(login)("bob", password=delayed(SECRET)),
        delayed(SECRET), delayed({"password": SECRET}), delayed(str)([SECRET]),
    ]
    big = SECRET * 20_000
    with lazyflow.profile() as profile:
        for _ in range(4):
            compute(delayed(len)(SECRET), delayed(len)(big), captures(big), delayed(str(SECRET)))
            lazyflow.submit(len, lazyflow.put(SECRET)).result()
            actor(list)([SECRET]).count(SECRET).result()
            with pytest.raises(ValueError, match="no"):
                lazy[0].compute()
    profile.to_chrome_trace(folder / "trace.json")
    return {
        "picture": visualize(*lazy)._repr_svg_(),
        "html": "".join(each._repr_html_() for each in lazy),
        "profile": profile._repr_html_(),
        "trace": (folder / "trace.json").read_text(),
        "advice": "".join(map(str, profile.advice())),
    }


class TestPages:
    @pytest.mark.parametrize("on", ["threads", "processes"])
    def test_show_no_value(self, tmp_path, on):
        with config.set(scheduler=on):
            found = pages(tmp_path)
        assert len(found["profile"]) > 1000
        assert [name for name, text in found.items() if SECRET in text] == []

    def test_show_them_where_they_are_wanted(self, tmp_path):
        with config.set(show_values="scalars"):
            found = pages(tmp_path)
        assert SECRET in found["picture"]
        assert SECRET in found["html"]

    def test_the_timeline(self, tmp_path):
        pytest.importorskip("bokeh", reason="bokeh is not installed")
        with lazyflow.profile() as profile:
            compute(delayed(len)(SECRET), delayed(len)(delayed(SECRET)))
        profile.timeline(str(tmp_path / "page.html"))
        assert SECRET not in (tmp_path / "page.html").read_text()

    def test_texts(self):
        f = delayed(login, hide="password")
        assert repr(f("bob", SECRET)) == "<Delayed login('bob', <hidden>)>"
        assert repr(delayed(SECRET, hide=True)) == "<Delayed <hidden>>"
        with config.set(show_values="none"):
            assert repr(delayed(login)("bob", SECRET)) == "<Delayed login(str, str)>"
            assert repr(delayed(SECRET)) == "<Delayed str>"


def told(_, password):
    return password


def uses(value):
    raise ValueError("wrong")


HIDDEN_RESULTS = {
    "a call": lambda call: call(1, "SECRET"),
    "persisted": lambda call: lazyflow.persist(call(1, "SECRET"))[0],
    "submitted": lambda call: lazyflow.submit(call, 1, "SECRET"),
    "one of map": lambda call: lazyflow.map(call, [1, 2], ["SECRET"] * 2)[0],
    "one of a batch": lambda call: lazyflow.map(call, [1, 2], ["SECRET"] * 2, batch=2)[0],
    "an item": lambda call: call(1, ["SECRET"])[0],
    "a persisted item": lambda call: lazyflow.persist(call(1, [["SECRET"]])[0])[0][0],
    "an item of an item": lambda call: call(1, [["SECRET"]])[0][0],
    "an operator": lambda call: call(1, "SEC") + "RET",
    "the second operand": lambda call: delayed(str)("") + call(1, "SECRET"),
    "a value": lambda call: lazyflow.persist(delayed("SECRET", hide=True))[0],
    "a fold": lambda call: lazyflow.tree_reduce(delayed(operator.add, hide=True), ["SEC", "RET"]),
}


@pytest.mark.parametrize("made", HIDDEN_RESULTS)
def test_hidden_results_stay_hidden_however_they_are_kept(made):
    value = HIDDEN_RESULTS[made](delayed(told, hide=True))
    assert "SEC" not in repr(value)
    with pytest.raises(ValueError, match="wrong") as failed:
        delayed(uses)(value).compute(scheduler="sync")
    assert any("uses(<hidden>)" in note for note in failed.value.__notes__)
    assert not any("SEC" in note for note in failed.value.__notes__)
