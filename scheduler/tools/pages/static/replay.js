// Page "Replay": any moment of a recording, and the recording under another configuration.
import { ask, computed, errorBox, saveButton } from "./ask.js";
import { card, dayTime, duration, fill, h, number, percent, plural, table } from "./dom.js";
import { showNow } from "./now.js";
import { timePlot } from "./plots.js";

const SHOWN = 12;

export async function replayPage(main, query, about) {
  document.title = "Replay · Stowage";
  const length = about.seconds;
  const start = Math.min(length, Math.max(0, Number(query.get("at") ?? length) || 0));
  const slider = h("input", { type: "range", id: "moment", min: "0", max: String(length), step: String(Math.max(0.1, length / 1000)), value: String(start) });
  const told = h("output", { for: "moment", class: "mono" });
  const trouble = h("div", {});
  const picture = h("div", { class: "main-cards" });
  const result = h("div", { class: "main-cards" });
  const config = h("textarea", { id: "config", spellcheck: "false" }, about.configuration);
  const go = h("button", { type: "submit", class: "main" }, "Compare");
  const at = () => Number(slider.value);
  let update = null;
  let stop = null;

  function drawTime() {
    told.textContent = `${duration(at())} of ${duration(length)} · ${dayTime(new Date((about.started + at()) * 1000).toISOString())}`;
  }

  async function look() {
    drawTime();
    if (stop) stop.abort();
    stop = new AbortController();
    try {
      const now = await ask("/api/now", { at: at() }, stop.signal);
      fill(trouble);
      if (update) update(now);
      else update = showNow(picture, now, { isLive: true, moment: at, title: "At this moment" });
    } catch (problem) {
      if (problem.name !== "AbortError") fill(trouble, errorBox(problem));
    }
  }

  async function compare(event) {
    event.preventDefault();
    go.disabled = true;
    await computed("/api/compare", { config: config.value }, result, (found) => showComparison(result, found, { isLive: true }));
    go.disabled = false;
  }

  slider.addEventListener("input", look);
  fill(main,
    h("section", { class: "card" }, h("h1", {}, "Replay"),
      h("div", { class: "head" }, h("label", { for: "moment" }, "Moment of the recording"), told), slider, trouble),
    picture,
    h("section", { class: "card" }, h("h2", {}, "The same under another configuration"),
      h("p", { class: "quiet" }, "Pods come and go as they were recorded; an engine with the configuration below places them. This is what was in force: change it, and compare."),
      about.isComplete ? h("form", { class: "form", onsubmit: compare },
        h("label", { for: "config" }, "KubeSchedulerConfiguration"), config, h("div", { class: "row" }, go))
        : h("p", { class: "note" }, "This recording does not begin at the daemon's start, as that of /debug/recording: what comes of a comparison begins with what was there.")),
    result);
  drawTime();
  await look();
}

export function showComparison(place, found, { isLive }) {
  const { recorded, now } = found;
  const rows = [
    ["pods placed", number(recorded.placed), number(now.placed)],
    ["pods pending", number(recorded.pending), number(now.pending)],
    ...["mean", "median", "p99", "longest"].map((what) => [`waited, ${what}`, duration(recorded.waited?.[what]), duration(now.waited?.[what])]),
    ["victims", number(recorded.victims.length), number(now.victims.length)],
    ["nodes with pods, mean", number(recorded.nodes.mean, 1), number(now.nodes.mean, 1)],
    ...Object.keys(now.use).map((name) => [`${name} requested, mean`, percent(recorded.use[name]?.mean, 1), percent(now.use[name].mean, 1)]),
  ];
  const curves = found.curves;
  const both = (name, pick, scale = 1) => [
    { name: `${name}, recorded`, values: pick(curves.recorded).map((value) => (value === null ? null : value * scale)) },
    { name: `${name}, compared`, values: pick(curves.now).map((value) => (value === null ? null : value * scale)), isDashed: true },
  ];
  const isFlat = (side) => (name) => !side.use[name] || side.use[name].every((share) => !share);
  const uses = Object.keys(curves.now.use).filter((name) => (name === "cpu" || name === "memory" || name.includes("/")) && !(isFlat(curves.recorded)(name) && isFlat(curves.now)(name)));
  const victims = recorded.victims.length + now.victims.length;
  const plots = [
    ["Pods that wait", timePlot({ title: "Pods that wait", times: curves.times, lines: both("waiting", (side) => side.waiting) })],
    ["Longest wait of those that wait", timePlot({ title: "Longest wait", times: curves.times, unit: " s", lines: both("oldest", (side) => side.oldest) })],
    ...uses.map((name) => [`${name} requested`, timePlot({ title: `${name} requested`, times: curves.times, unit: " %", lines: both(name, (side) => side.use[name], 100) })]),
    victims ? ["Victims so far", timePlot({ title: "Victims so far", times: curves.times, lines: both("victims", (side) => side.victims) })] : null,
  ];
  fill(place,
    h("section", { class: "card verdict" }, h("div", { class: "head" },
      h("h2", {}, `${plural(found.elsewhere.length, "pod")} of ${number(found.pods)} ${found.elsewhere.length === 1 ? "comes" : "come"} to another node`), isLive ? saveButton("replay", () => found) : null),
      h("p", { class: "quiet small" }, "Recorded is what happened; compared, what the other configuration makes of the same pods."),
      found.notices.map((text) => h("p", { class: "note" }, text)),
      table(["", { text: "recorded", number: true }, { text: "compared", number: true }], rows)),
    h("div", { class: "columns" }, plots.filter(Boolean).map(([title, plot]) => card(title, plot.element))),
    found.elsewhere.length ? longTable("Pods that come to another node", ["pod", "recorded", "compared"],
      found.elsewhere.map((each) => [h("span", { class: "mono" }, each.pod), each.recorded || "pending", each.now || "pending"])) : null,
    victimsCard(recorded, now));
}

function victimsCard(recorded, now) {
  const gone = (side) => new Set(side.victims.map((victim) => victim.pod));
  const [then, later] = [gone(recorded), gone(now)];
  const rows = [
    ...recorded.victims.filter((victim) => !later.has(victim.pod)).map((victim) => [victim.pod, victim.preemptor, "recorded only"]),
    ...now.victims.filter((victim) => !then.has(victim.pod)).map((victim) => [victim.pod, victim.preemptor, "compared only"]),
  ];
  return rows.length ? longTable("Evicted on one side only", ["pod", "for", "when"], rows) : null;
}

function longTable(title, headers, rows) {
  const place = h("div", {}, table(headers, rows.slice(0, SHOWN), "stack"));
  const more = h("button", { type: "button", class: "no-print", onclick: () => { fill(place, table(headers, rows, "stack")); more.remove(); } }, `Show ${plural(rows.length - SHOWN, "more pod")}`);
  return card(title, place, rows.length > SHOWN ? more : null);
}
