"""The cache of this process: one maker a key."""

import threading
import time

import pytest

from tile_runtime.cache import MemoryCache


def run_together(count, work):
    barrier = threading.Barrier(count)
    results, errors = [], []

    def body(number):
        barrier.wait()
        try:
            results.append(work(number))
        except ValueError as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results, errors


def test_many_threads_make_one_value():
    cache, made = MemoryCache(), []

    def make():
        made.append(1)
        time.sleep(0.02)
        return object()

    results, _ = run_together(16, lambda number: cache.get_or_make("key", make))
    assert len(made) == 1 and len({id(value) for value in results}) == 1
    assert cache.get("key") is results[0]


def test_different_keys_do_not_wait_for_each_other():
    cache, inside = MemoryCache(), threading.Barrier(2)
    # each make waits until the other runs too: with one lock for all keys this would hang
    results, _ = run_together(2, lambda number: cache.get_or_make(number, lambda: inside.wait(10) is not None))
    assert results == [True, True] and len(cache) == 2


def test_after_a_failure_the_next_one_tries_again():
    cache, tries = MemoryCache(), []

    def make():
        tries.append(1)
        time.sleep(0.01)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "value"

    results, errors = run_together(6, lambda number: cache.get_or_make("key", make))
    assert len(errors) == 2 and results == ["value"] * 4 and len(tries) == 3


def test_clear_forgets():
    cache = MemoryCache()
    cache.get_or_make("key", lambda: 1)
    cache.clear()
    assert cache.get("key") is None and cache.get_or_make("key", lambda: 2) == 2


def test_an_error_reaches_the_one_who_asked():
    cache = MemoryCache()
    with pytest.raises(ZeroDivisionError):
        cache.get_or_make("key", lambda: 1 // 0)
    assert len(cache) == 0
