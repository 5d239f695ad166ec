# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps side by side. Functions that call each other in order are a chain; chains run beside each other."""

import concurrent.futures
from collections.abc import Callable
from typing import Any

from lab import groups


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Their results in order. When one fails, or this command is to end, what the others run is ended as well."""
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
    """Those that others ended of come last."""
    errors = [error for future in futures if (error := future.exception())]
    return sorted(errors, key=lambda error: isinstance(error, groups.Ended))
