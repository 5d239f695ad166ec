// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps the content of an element while a pointer is pressed on it: the browser reports a click only if press and
// release hit the same element.

export class Press {
  constructor(element) {
    this.pressed = false;
    this.waiting = null;        // the latest work postponed by a press
    element.addEventListener("pointerdown", () => {
      this.pressed = true;
    });
    for (const name of ["pointerup", "pointercancel"]) {
      addEventListener(name, () => this.release());
    }
    addEventListener("pointermove", ({buttons}) => buttons || this.release());      // released outside of the window
  }

  /** Calls work, which changes the content, now or after the click. Later work replaces earlier postponed work. */
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
