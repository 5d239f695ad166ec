# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps in parallel. The functions of a chain are called in order; several chains run at the same time."""

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from lab.base import groups

BEHIND = 10                     # niceness of a step beside another one


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Runs functions in parallel; returns their results in order. If one fails, or the command is interrupted, the
    programs that the others run are ended too."""
    with groups.RUNNING.block(), concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        futures = [pool.submit(function) for function in functions]
        try:
            done, _ = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION)
            if any(future.exception() for future in done):
                groups.RUNNING.end()
        except BaseException:
            groups.RUNNING.end()
            raise
        finally:
            concurrent.futures.wait(futures)
    for error in _errors(futures):
        raise error
    return [future.result() for future in futures]


@contextlib.contextmanager
def beside(function: Callable[[], object]) -> Iterator[None]:
    """Runs a function while the block runs, on processors that the block leaves idle. The end of the block waits for
    the function, and raises its error. If the block fails, or the command is interrupted, the function's programs are
    ended."""
    # Linux has a niceness for each thread, which the thread's programs inherit.
    with (groups.RUNNING.block(),
          concurrent.futures.ThreadPoolExecutor(1, initializer=os.nice, initargs=(BEHIND,)) as pool):
        future = pool.submit(function)
        try:
            yield
            future.result()
        except BaseException:
            groups.RUNNING.end()
            raise


def _errors(futures: list[concurrent.futures.Future]) -> list[BaseException]:
    """The futures' errors. groups.Ended errors come last, because another error has caused them."""
    errors = [error for future in futures if (error := future.exception())]
    return sorted(errors, key=lambda error: isinstance(error, groups.Ended))
