# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test: all runners, one verdict.

Units are meson's tests, built with sanitizers, and QEMU's own view of the device
without a guest; guests are pytest against booted guests. Counts are of test cases:
a Catch2 program counts as many as it says, any other program as one.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree

from lab import paths, ui, up
from lab.build import deps, host_build
from lab.guests import guest_kernel, image, kvm, nested, vm

PARTS = ("unit", "guest")
KVM_TESTS = "test_kvm or test_kicks"
VERDICT = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
CATCH2 = re.compile(r"^test cases: +(\d+) \|(.*)$|"
                    r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)$", re.MULTILINE)
SANITIZER_ENV = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                 "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.passed + other.passed, self.failed + other.failed)


def catch2_count(output: str) -> Count | None:
    """What a Catch2 program's last line says, None if there is none."""
    found = list(CATCH2.finditer(output))
    if not found:
        return None
    total, parts, all_passed = found[-1].groups()
    if all_passed:
        return Count(passed=int(all_passed))
    numbers = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", parts)}
    failed = numbers.get("failed", 0)
    return Count(numbers.get("passed", int(total) - failed), failed)


def program_count(entry: dict) -> Count:
    """One line of meson's testlog.json."""
    if entry["result"] in ("SKIP", "IGNORED"):
        return Count()
    passed = entry["result"] in ("OK", "EXPECTEDFAIL")
    count = catch2_count(entry.get("stdout", ""))
    if count is None:
        return Count(passed=int(passed), failed=int(not passed))
    if not passed and not count.failed:
        count.failed = 1            # ended badly after its last test, e.g. by a leak
    return count


def meson_tests(build: pathlib.Path = host_build.SANITIZED, names: tuple[str, ...] = ()) -> Count:
    """names: of tests, without any for all."""
    directory = host_build.build(build)
    ui.say("running the unit tests")
    subprocess.run(["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs",
                    "--timeout-multiplier", "4", *names], env={**os.environ, **SANITIZER_ENV},
                   stdin=subprocess.DEVNULL, check=False)
    log = directory / "meson-logs" / "testlog.json"
    if not log.exists():
        return Count()
    return sum((program_count(json.loads(line)) for line in log.read_text().splitlines()), Count())


def junit_count(path: pathlib.Path) -> Count:
    """A report that is missing or unreadable is a failure: the runner died."""
    try:
        suites = xml.etree.ElementTree.parse(path).getroot().iter("testsuite")
        count = Count()
        for suite in suites:
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            total = int(suite.get("tests", 0)) - int(suite.get("skipped", 0))
            count += Count(max(total - bad, 0), bad)
        return count
    except (OSError, xml.etree.ElementTree.ParseError, ValueError):
        return Count(failed=1)


def pytest(folder: str, *options: str) -> Count:
    if not list((paths.ROOT / folder).glob("test_*.py")):
        return Count()
    report = paths.RUN / f"{folder.replace('/', '-')}.xml"
    report.unlink(missing_ok=True)
    ui.say(f"running {folder}")
    # No summary of its own: the one line that counts is ours.
    done = subprocess.run(["/usr/bin/python3", "-B", "-m", "pytest", "-v", "--no-header",
                           "-p", "no:cacheprovider", f"--rootdir={paths.ROOT}",
                           f"--junitxml={report}", *options, folder], cwd=paths.ROOT,
                          env={**os.environ, "PYTHONPATH": str(paths.ROOT)},
                          stdin=subprocess.DEVNULL, check=False)
    count = junit_count(report)
    if done.returncode not in (0, 5) and not count.failed:
        count.failed = 1
    return count


def unit() -> Count:
    count = meson_tests()
    host_build.build()
    count += pytest("tests/lab") + pytest("tests/driver")
    if not vm.module_usable():
        ui.say("the device has not been built, so tests/qemu cannot run: counted as failed")
        return count + Count(failed=1)
    return count + pytest("tests/qemu")


def guest() -> Count:
    up.prepare()
    return pytest("tests/guest")


def lockdep() -> Count:
    guest_kernel.choose("lockdep")
    return guest()


def tsan() -> Count:
    """What threads do to each other's memory, in the tests that have threads, and in the switch that others run."""
    return meson_tests(host_build.THREADS, host_build.THREADED)


def bookworm() -> Count:
    image.choose("bookworm")
    return guest()


def sockets() -> Count:
    os.environ["PIB_TEST_HCA"] = "shared-memory=off"
    return guest()


def one_copy() -> Count:
    os.environ["PIB_TEST_HCA"] = vm.ZERO_COPY
    return guest()


def on_kvm() -> Count:
    """What KVM does for the device; where it does not work, on an emulated host on which it does."""
    base, _ = up.prepare()
    if kvm.accelerator(base) == "kvm":
        return pytest("tests/guest", "-k", KVM_TESTS)
    verdicts = VERDICT.findall(nested.run(base, ["./pib", "test", "kvm"]))
    if not verdicts:
        ui.say("the emulated host has died, which is QEMU's emulation of SVM and not the device: run it again")
        return Count(failed=1)
    return Count(*map(int, verdicts[-1]))


RUNNERS = {"unit": unit, "guest": guest, "lockdep": lockdep, "bookworm": bookworm, "sockets": sockets,
           "one-copy": one_copy, "kvm": on_kvm, "tsan": tsan}


def test(part: str | None) -> int:
    """part: a name of RUNNERS; None: those of PARTS."""
    deps.install()
    paths.RUN.mkdir(exist_ok=True)
    count = sum((RUNNERS[name]() for name in ([part] if part else PARTS)), Count())
    print(f"\n{count.passed} passed, {count.failed} failed", flush=True)
    return 0 if count.passed and not count.failed else 1
