# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps in parallel. The functions of a chain are called in order; several chains run at the same time."""

import concurrent.futures
from collections.abc import Callable
from typing import Any

from lab import groups


def together(*functions: Callable[[], Any]) -> list[Any]:
    """The chains' results in order. If one fails, or the command is interrupted, the programs of the others are ended
    too."""
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


def _errors(futures: list[concurrent.futures.Future]) -> list[BaseException]:
    """Errors of ended steps come last, because another error has caused them."""
    errors = [error for future in futures if (error := future.exception())]
    return sorted(errors, key=lambda error: isinstance(error, groups.Ended))
