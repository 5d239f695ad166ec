# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib clean: shows what the caches hold, and frees it."""

import pathlib
import shutil
import subprocess
import time
from collections.abc import Sequence

from lab.base import paths, table, ui
from lab.build import cache, user_namespace

DAY_S = 24 * 3600


def _bytes(tree: pathlib.Path) -> int:
    """Disk space of a tree in bytes. Its files may belong to other users. Files that vanish during the count are left
    out."""
    def measured(prefix: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*prefix, "du", "-s", "--block-size=1", tree], capture_output=True, text=True,
                              check=False)
    done = measured([])
    if done.returncode:         # a directory of another user
        done = measured(user_namespace.as_owner())
    return int(done.stdout.split()[0]) if done.stdout else 0


def _size(number: int) -> str:
    return f"{number / 1e9:.2f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"


def _days(entry: pathlib.Path) -> int:
    """Days since the last use of an entry that exists."""
    return max(0, int((time.time() - cache.last_use(entry)) // DAY_S))


def _last_use(entry: pathlib.Path) -> str:
    if cache.users(entry):
        return "now"
    if entry.name.endswith(cache.PART):
        return "being made" if cache.is_locked(entry) else "unfinished: its command was stopped"
    if not entry.exists():
        return "freed by another command"
    return f"{_days(entry)} days ago" if _days(entry) else "today"


def show() -> int:
    entries = cache.entries()
    sizes = [_bytes(entry) for entry in entries]
    print(table.table(["entry", "size", "last used"],
                      [[entry.name, _size(size), _last_use(entry)] for entry, size in zip(entries, sizes)]))
    print(ui.named(f"\n{paths.cache()} holds {_size(sum(sizes))}, which ./pib makes again when it needs it. Free it:\n"
                   "  ./pib clean ENTRY…    ./pib clean --unused DAYS    ./pib clean --all"))
    return 0


def _wanted(names: Sequence[str], unused_days: int | None, everything: bool) -> list[pathlib.Path]:
    entries = {entry.name: entry for entry in cache.entries()}
    if missing := [name for name in names if name not in entries]:
        raise ui.LabError(f"the cache has no {', '.join(missing)}. Its entries:  ./pib clean")
    return [entry for name, entry in entries.items()
            if everything or name in names or unused_days is not None and _days(entry) >= unused_days]


def free(names: Sequence[str], unused_days: int | None, everything: bool) -> int:
    """Removes the named entries, entries unused for some days, or all entries. Keeps entries in use; that is an error
    if the entry was named."""
    freed = 0
    for entry in _wanted(names, unused_days, everything):
        if not entry.exists():      # removing another entry has removed this one, too
            continue
        size = _bytes(entry)
        try:
            cache.remove(entry)
        except ui.LabError as error:
            if entry.name in names:
                raise
            ui.say(f"kept: {error}")
            continue
        shutil.rmtree(paths.guest_results() / entry.name, ignore_errors=True)
        print(f"freed {_size(size)}: {entry.name}")
        freed += size
    print(f"freed: {_size(freed)}")
    return 0


def clean(names: Sequence[str], unused_days: int | None, everything: bool) -> int:
    if not (names or everything or unused_days is not None):
        return show()
    if unused_days is not None and unused_days < 0:
        raise ui.LabError(f"--unused {unused_days}: expected a number of days")
    return free(names, unused_days, everything)
