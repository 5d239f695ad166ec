# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes results as JUnit XML, which CI systems show."""

import contextlib
import dataclasses
import pathlib
import time
import xml.etree.ElementTree as xml
from typing import Iterator

from lab.base import errors, ui

CLASS = "pib"


@dataclasses.dataclass
class Case:
    """A test case. failure: one sentence; "" if it has passed. output: the last output."""
    name: str
    seconds: float = 0.0
    failure: str = ""
    output: str = ""

    def element(self) -> xml.Element:
        made = xml.Element("testcase", classname=CLASS, name=ui.printable(self.name), time=f"{self.seconds:.3f}")
        if self.failure:
            failed = xml.SubElement(made, "failure", message=ui.printable(self.failure))
            failed.text = ui.printable(self.failure)
        if self.output:
            xml.SubElement(made, "system-out").text = ui.printable(self.output)
        return made


class Report:
    def __init__(self, name: str):
        self.name = name
        self.cases: list[Case] = []

    @contextlib.contextmanager
    def case(self, name: str) -> Iterator[Case]:
        """Adds a case that lasts as long as the block. An exception in the block is the case's failure, and is raised
        again."""
        case, begun = Case(name), time.monotonic()
        self.cases.append(case)
        try:
            yield case
        except KeyboardInterrupt:
            case.failure = "a signal has ended it"
            raise
        except Exception as error:
            case.failure = errors.sentence(error)
            raise
        finally:
            case.seconds = time.monotonic() - begun

    def write(self, file: pathlib.Path) -> None:
        suite = xml.Element("testsuite", name=self.name, tests=str(len(self.cases)), errors="0", skipped="0",
                            failures=str(sum(bool(case.failure) for case in self.cases)),
                            time=f"{sum(case.seconds for case in self.cases):.3f}")
        suite.extend(case.element() for case in self.cases)
        xml.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
