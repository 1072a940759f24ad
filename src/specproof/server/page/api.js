// The server's endpoints. A key, where the server wants one, stays in this tab.

import { byId } from "/page/dom.js";

const KEY = "specproof-key";
const headers = () => {
  const key = sessionStorage.getItem(KEY);
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
};

async function answer(path, options) {
  const response = await fetch(path, { ...options, headers: headers() });
  if (response.ok) return response;
  if (response.status === 401) byId("key-form").hidden = false;
  let message = `${path} answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch { /* not an error of ours: the status has to do */ }
  throw new Error(message);
}

export const get = async (path) => (await answer(path, {})).json();

export async function post(path, body, signal) {
  return (await answer(path, { method: "POST", body: JSON.stringify(body ?? {}), signal })).json();
}

/** Calls `heard` with every event of a stream; an error event is thrown. */
export async function stream(path, body, signal, heard) {
  const response = await answer(path, { method: "POST", body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const event = JSON.parse(part.replace(/^data: /, ""));
      if (event.error) throw new Error(event.error.message);
      heard(event);
    }
  }
}

export function askForKey(after) {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, byId("key").value);
    byId("key-form").hidden = true;
    after();
  });
}
