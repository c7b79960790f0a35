// Questions to the server: short ones, and long ones with progress that end when the page goes.
import { duration, fill, h, withQuery } from "./dom.js";

export async function ask(path, query = {}, signal = undefined) {
  return told(await fetch(withQuery(path, query), { signal }));
}

async function told(answer) {
  const value = await answer.json();
  if (value.error) throw new Error(value.error);
  return value;
}

// Lines of JSON: {"share", "left"} while it is computed, then {"result"} or {"error"}.
async function askLong(path, question, signal, onProgress) {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal,
  });
  if (!answer.headers.get("Content-Type").startsWith("application/x-ndjson")) return told(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += value || "";
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const said = JSON.parse(line);
      if (said.error) throw new Error(said.error);
      if (said.result) return said.result;
      onProgress(said);
    }
    if (done) throw new Error("The console ended before it had answered.");
  }
}

// Shows progress and a button to stop in `place`, then what `show` makes of the answer.
export async function computed(path, question, place, show) {
  const stop = new AbortController();
  const bar = h("progress", { max: "1", "aria-label": "Progress" });
  const text = h("span", { class: "small quiet" }, "Computing…");
  const leave = () => stop.abort();
  window.addEventListener("pagehide", leave);
  fill(place, h("div", { class: "card progress", role: "status" }, bar,
    h("div", { class: "row" }, text, h("button", { type: "button", onclick: leave }, "Stop"))));
  try {
    const result = await askLong(path, question, stop.signal, (said) => {
      bar.value = said.share;
      text.textContent = said.left === null ? "Computing…" : `About ${duration(Math.max(1, said.left))} left`;
    });
    fill(place);
    show(result);
  } catch (problem) {
    fill(place, stop.signal.aborted ? h("p", { class: "quiet" }, "Stopped.") : errorBox(problem));
  } finally {
    window.removeEventListener("pagehide", leave);
  }
}

export function errorBox(problem) {
  return h("p", { class: "error", role: "alert" }, problem.message || String(problem));
}

// Saves the page's data as one file that needs no server; below the button it says why it could not.
export function saveButton(page, data) {
  const trouble = h("div", {});
  const save = async () => {
    fill(trouble);
    try {
      const answer = await fetch("/api/saved", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ page, data: data() }),
      });
      if (!answer.ok) throw new Error((await answer.json()).error);
      const link = h("a", { href: URL.createObjectURL(await answer.blob()), download: `stowage-${page}.html` });
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (problem) {
      fill(trouble, errorBox(new Error(`The page was not saved: ${problem.message}`)));
    }
  };
  return h("div", { class: "no-print" }, h("button", { type: "button", onclick: save }, "Save page"), trouble);
}
