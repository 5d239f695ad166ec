// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps the content of an element while a pointer is pressed there: a click needs one element at its press and at its
// release, at one place.

export class Press {
  constructor(element) {
    this.pressed = false;
    this.waiting = null;        // the newest work since then
    element.addEventListener("pointerdown", () => {
      this.pressed = true;
    });
    for (const name of ["pointerup", "pointercancel"]) {
      addEventListener(name, () => this.release());
    }
    addEventListener("pointermove", ({buttons}) => buttons || this.release());      // released outside of the window
  }

  /** Calls work, which changes the content; at once or after the click. Later work replaces earlier. */
  change(work) {
    this.waiting = this.pressed ? work : null;
    if (!this.pressed) {
      work();
    }
  }

  forget() {
    this.waiting = null;
  }

  release() {
    if (this.pressed) {
      this.pressed = false;
      setTimeout(() => this.waiting && this.change(this.waiting));
    }
  }
}
