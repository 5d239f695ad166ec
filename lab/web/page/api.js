// SPDX-License-Identifier: GPL-2.0-or-later
// Requests to the server. URLs are relative, so they contain the token of the page's URL.

export const SILENT = "The server does not answer. Is ./pib web running?";

async function reached(...request) {
  try {
    return await fetch(...request);
  } catch {
    throw new Error(SILENT);
  }
}

/** Why the server refuses this page; "" if it does not. */
export async function refusal() {
  try {
    const response = await fetch("icon.svg", {cache: "no-store"});
    return response.ok ? "" : (await response.json()).error;
  } catch {
    return SILENT;
  }
}

async function answer(response) {
  const data = await response.json();
  if (!response.ok) {
    throw new Error(data.error || `the server answered ${response.status}`);
  }
  return data;
}

export async function ask(what, question = {}) {
  return answer(await reached(`${what}?${new URLSearchParams(question)}`));
}

export async function change(what, request) {
  return answer(await reached(what, {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(request),
  }));
}
