"""What a function reads from outside: which values count, when they changed."""

import textwrap

from tile_runtime.captures import Captures


def defined(source, **names):
    scope = dict(names)
    exec(textwrap.dedent(source), scope)
    return scope


def test_a_changed_global_is_seen_and_a_like_one_is_not():
    scope = defined("def f(x): return x + BLOCK * SIZES[0]", BLOCK=128, SIZES=(1, 2), other=3)
    captures = Captures(scope["f"])
    assert captures.unchanged()
    scope["other"] = 4
    scope["SIZES"] = (1, 2)
    assert captures.unchanged()
    scope["BLOCK"] = 256
    assert not captures.unchanged()
    captures.read()
    assert captures.unchanged()
    scope["SIZES"] = (2, 2)
    assert not captures.unchanged()


def test_equal_values_of_another_type_differ():
    scope = defined("def f(): return FLAG", FLAG=1)
    captures = Captures(scope["f"])
    scope["FLAG"] = True
    assert not captures.unchanged()


def test_attribute_names_and_locals_do_not_count():
    scope = defined("def f(a):\n    M = 2\n    return a.N + M", M=1, N=1)
    captures = Captures(scope["f"])
    scope["M"] = scope["N"] = 5
    assert captures.unchanged()


def test_closures_and_inner_functions_count():
    def make():
        block = 1

        def f():
            def inner():
                return block

            return inner

        def change():
            nonlocal block
            block = 2

        return f, change

    f, change = make()
    captures = Captures(f)
    assert captures.unchanged()
    change()
    assert not captures.unchanged()


def test_objects_that_are_no_plain_values_do_not_count():
    scope = defined("def f(): return table, helper", table=[1], helper=len)
    captures = Captures(scope["f"])
    scope["table"] = [2]
    assert captures.unchanged()


def test_a_deleted_global_is_a_change():
    scope = defined("def f(): return BLOCK", BLOCK=1)
    captures = Captures(scope["f"])
    del scope["BLOCK"]
    assert not captures.unchanged()
