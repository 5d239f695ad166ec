# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the page's JavaScript in node, with as much of a document as its views use. tests/browser has the whole page."""

import json
import pathlib
import shutil
import subprocess
from typing import Any

from lab.base import paths

PAGE = paths.ROOT / "lab" / "web" / "page"
TIMEOUT_S = 60
# Text of an element: cells of a table end with " | ", rows and blocks with a line's end.
DOCUMENT = """
class Element {
  constructor(name) {
    Object.assign(this, {name, parts: [], attributes: {}, style: {}, listeners: {}, dataset: {}, classes: ""});
  }
  append(...parts) { this.parts.push(...parts); }
  setAttribute(key, value) {
    this.attributes[key] = String(value);
    if (key.startsWith("data-")) this.dataset[key.slice(5)] = String(value);
  }
  querySelectorAll(name) { return this.all(name); }
  focus() { globalThis.focused = this; }
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  get text() {
    const end = {td: " | ", th: " | ", tr: "\\n", p: "\\n", h2: "\\n", h3: "\\n", li: "\\n"}[this.name] ?? "";
    return this.parts.map((one) => one.text ?? String(one)).join("") + end;
  }
  all(name) {
    return this.parts.filter((one) => one instanceof Element)
      .flatMap((one) => [...(one.name === name ? [one] : []), ...one.all(name)]);
  }
}
globalThis.document = {createElement: (name) => new Element(name), createElementNS: (_space, name) => new Element(name),
                       getElementById: () => null};
globalThis.root = (parts) => { const all = new Element("div"); all.append(...parts); return all; };
globalThis.pane = {to: (_kind, _id, text) => text, explained: (_section, text = "Explain") => text, mark: () => {},
                   part: (_key, _value, build) => root(build())};
"""


def run(directory: pathlib.Path, code: str, **values: Any) -> Any:
    """Runs the body of an asynchronous function beside a copy of the page's files; returns its result. values: its
    variables."""
    shutil.copytree(PAGE, directory / "page", dirs_exist_ok=True)
    (directory / "package.json").write_text('{"type": "module"}')
    names = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
    (directory / "page" / "test.js").write_text(
        f"{DOCUMENT}\nconst answer = await (async () => {{\n{names}{code}\n}})();\n"
        "console.log(JSON.stringify(answer));\n")
    done = subprocess.run(["node", directory / "page" / "test.js"], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
