"""What a function reads from outside: which values count, when they changed."""

import textwrap
from types import SimpleNamespace

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


def test_containers_count_by_content():
    scope = defined("def f(): return TABLE, CONFIG['k'], CHOSEN", TABLE=[1, [2]], CONFIG={"k": 1}, CHOSEN={1})
    captures = Captures(scope["f"])
    for change in (
        lambda: scope["TABLE"][1].append(3),
        lambda: scope["CONFIG"].update(k=1.0),
        lambda: scope["CHOSEN"].add(2),
        lambda: scope.update(TABLE=[2]),
    ):
        assert captures.unchanged()
        change()
        assert not captures.unchanged()
        captures.read()


def test_a_large_container_counts_as_the_object_that_it_is():
    scope = defined("def f(): return TABLE[0]", TABLE=list(range(1000)))
    captures = Captures(scope["f"])
    scope["TABLE"][0] = 5
    assert captures.unchanged()
    scope["TABLE"] = list(scope["TABLE"])
    assert not captures.unchanged()


def test_the_attributes_that_are_read_count():
    scope = defined("def f(): return options.block", options=SimpleNamespace(block=1, other=1))
    captures = Captures(scope["f"])
    scope["options"].other = 2
    assert captures.unchanged()
    scope["options"].block = 2
    assert not captures.unchanged()


def test_what_called_functions_and_macros_read_counts_too():
    source = """
        import math
        def helper(x): return math.sqrt(x) * BLOCK + inner(x)
        def inner(x): return x + helper.__defaults__ if x else 0
        def f(x): return helper(x)
    """
    scope = defined(source, BLOCK=1)
    captures = Captures(scope["f"])
    assert captures.unchanged()
    scope["BLOCK"] = 2
    assert not captures.unchanged()
    captures.read()
    exec("def inner(x): return 2", scope)
    assert not captures.unchanged()
    macro = SimpleNamespace(__wrapped__=scope["helper"])
    captures = Captures(defined("def g(): return macro()", macro=macro)["g"])
    scope["BLOCK"] = 3
    assert not captures.unchanged()


def test_functions_of_libraries_are_not_followed():
    scope = defined(
        "from textwrap import dedent\nfrom torch.nn.functional import silu\ndef f(x): return dedent(x), silu"
    )
    captures = Captures(scope["f"])
    assert {name for _, name, _ in captures._names} == {"dedent", "silu"} and captures.unchanged()


def test_equal_numbers_that_are_other_objects_are_no_change():
    scope = defined("def f(): return LARGE, len(PAIR)", LARGE=10**20, PAIR=(1.5, "a"))
    captures = Captures(scope["f"])
    scope["LARGE"], scope["PAIR"] = 10**20 + 0, (1.5, "".join(["a"]))
    assert captures.unchanged()


def test_a_deleted_global_is_a_change():
    scope = defined("def f(): return BLOCK", BLOCK=1)
    captures = Captures(scope["f"])
    del scope["BLOCK"]
    assert not captures.unchanged()
