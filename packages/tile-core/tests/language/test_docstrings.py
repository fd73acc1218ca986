"""Every name of the language is documented: a function's text names each of its parameters, or the function whose text
does."""

import inspect
import re

import pytest

import tile_core.language as T

FUNCTIONS = [n for n in T.__all__ if inspect.isfunction(getattr(T, n))]
CLASSES = [n for n in T.__all__ if inspect.isclass(getattr(T, n))]


def documented(name, seen=()):
    """Words of the text of a function and of those that it refers to."""
    text = inspect.getdoc(getattr(T, name)) or ""
    words = set(re.findall(r"\w+", text))
    for other in re.findall(r"`(?:T\.)?(\w+)`", text):
        if other in FUNCTIONS and other not in (name, *seen):
            words |= documented(other, (name, *seen))
    return words


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_text_of_a_function_names_its_parameters(name):
    text = inspect.getdoc(getattr(T, name))
    assert text and text.rstrip().endswith((".", ":", "…", "`")), f"T.{name} says {text!r}"
    missing = [p for p in inspect.signature(getattr(T, name)).parameters if p not in documented(name)]
    assert not missing, f"T.{name} does not say what {', '.join(missing)} are"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_a_text(name):
    assert len(inspect.getdoc(getattr(T, name)) or "") > 20
