// Page "Now": what waits and why, what happens, how full the nodes are.
import { ask, errorBox, saveButton } from "./ask.js";
import { atMoment, card, duration, figures, fill, h, number, plural, podLink, table } from "./dom.js";
import { heatMaps } from "./heat.js";
import { timePlot } from "./plots.js";

const AGAIN_MILLISECONDS = 2000;
const AGES = ["less than 10 s", "10 s to 1 min", "1 to 10 min", "10 min to 1 h", "1 h to 1 d", "more than a day"];
const QUEUE = { active: "to be tried", backoff: "in back-off", unschedulable: "fit nowhere", gated: "gated", waiting: "wait for a node" };

function queueFigures(now) {
  return figures([
    ["nodes", number(now.heat.names.length)],
    ["pods with a node", number(now.pods)],
    ...Object.entries(now.queue).map(([name, count]) => [QUEUE[name] || name, number(count), name === "unschedulable" && count ? "bad" : ""]),
    now.assumed ? ["only assumed", number(now.assumed)] : null,
    now.binds === null ? null : ["bound per second", number(now.binds, 1)],
    now.arrivals === null ? null : ["new pods per second", number(now.arrivals, 1)],
  ]);
}

function waitingCard(now, moment, isLive) {
  if (!now.waiting.length) return card("Why pods wait", h("p", {}, "No pod waits for a node."));
  const rows = now.waiting.map((each) => [
    h("div", {}, h("div", {}, each.message), h("div", { class: "small" }, each.pods.map((pod, index) => [index ? ", " : "", podLink(pod, moment)]),
      each.count > each.pods.length ? h("span", { class: "quiet" }, ` and ${number(each.count - each.pods.length)} more`) : null)),
    number(each.count),
    each.oldest === null ? "–" : duration(each.oldest),
    ages(each),
  ]);
  return card("Why pods wait",
    h("p", { class: "quiet small" }, "By reason, the most frequent first. Choose a pod to see which change would help it."),
    isLive ? podForm(moment) : null,
    table(["reason", { text: "pods", number: true }, { text: "oldest waits", number: true }, "by age"], rows, "stack"));
}

function gangsCard(now, moment) {
  const rows = now.gangs.map((each) => [
    each.pod ? podLink(each.pod, moment, each.name) : each.name,
    each.least === null ? number(each.placed) : `${number(each.placed)} of ${number(each.least)}`,
    number(each.waiting),
  ]);
  return card("Pod groups",
    h("p", { class: "quiet small" }, "Members with a node, of those that the group needs. A link leads to the first member that waits."),
    table(["group", { text: "placed", number: true }, { text: "wait", number: true }], rows, "stack"));
}

function devicesCard(now) {
  const rows = now.devices.map((each) => [each.name, `${number(each.inUse)} of ${number(each.devices)}`]);
  return card("Devices",
    h("p", { class: "quiet small" }, `Those that a ResourceClaim has, by class. ${plural(now.pendingClaims, "claim")} ${now.pendingClaims === 1 ? "has" : "have"} none yet.`),
    rows.length ? table(["class", { text: "in use", number: true }], rows, "stack") : null);
}

// To the page of any pod, those included that the list leaves out.
function podForm(moment) {
  return h("form", { class: "row no-print", role: "search", action: "/pod" },
    Object.entries(atMoment(moment)).map(([name, value]) => h("input", { type: "hidden", name, value: String(value) })),
    h("label", { for: "find-pod" }, "Find a pod"), h("input", { type: "search", id: "find-pod", name: "q", autocomplete: "off", placeholder: "part of a name, or namespace/name" }), h("button", { type: "submit" }, "Find"));
}

function ages(each) {
  const told = each.ages.map((count, index) => (count ? `${number(count)} wait ${AGES[index]}` : "")).filter(Boolean).join(", ");
  const total = each.ages.reduce((sum, count) => sum + count, 0) || 1;
  const parts = each.ages.map((count, index) => {
    const part = h("span", { class: `age${index}`, title: `${AGES[index]}: ${number(count)}` });
    part.style.width = `${(100 * count) / total}%`;
    return part;
  });
  return h("div", { class: "ages", role: "img", "aria-label": told || "age not known" }, parts);
}

function ageLegend() {
  return h("ul", { class: "legend" }, AGES.map((name, index) => h("li", {}, h("i", { class: `age${index}` }), name)));
}

async function podsOn(node, moment) {
  try {
    const list = await ask("/api/pods", { node, ...atMoment(moment) });
    if (!list.count) return h("span", { class: "quiet" }, "No pod is on it.");
    return h("div", {}, list.pods.map((pod, index) => [index ? ", " : "", podLink(pod.pod, moment)]),
      list.count > list.pods.length ? ` and ${number(list.count - list.pods.length)} more` : "");
  } catch (problem) {
    return errorBox(problem);
  }
}

// Draws once; `update` changes figures, list and map in place, so that the focus stays where it is.
export function showNow(place, now, { isLive, moment, title = "Now", withSeries = true }) {
  const numbers = h("div", {});
  const waiting = h("div", {});
  const gangs = h("div", {});
  const devices = h("div", {});
  const map = heatMaps([{ heat: now.heat, title: "Nodes" }], isLive ? (node) => podsOn(node, moment()) : null);
  const plot = withSeries && now.series.times.length > 1
    ? timePlot({ title: "Pods per second", times: now.series.times, isTimeOfDay: true, lines: [{ name: "bound", values: now.series.binds }, { name: "new", values: now.series.arrivals }] }) : null;
  let latest = now;
  fill(place, h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, title), isLive ? saveButton("now", () => latest) : null), numbers),
    waiting, gangs, devices, plot ? card("Pods per second", plot.element) : null,
    card("How full the nodes are", map.element));
  function update(next) {
    latest = next;
    fill(numbers, queueFigures(next), next.missing ? h("p", { class: "note" }, next.missing) : null);
    const key = JSON.stringify([moment(), next.waiting.map((each) => [each.message, each.count, each.pods, each.ages])]);
    if (key !== waiting.dataset.shown && !(waiting.dataset.shown && waiting.contains(document.activeElement))) {
      waiting.dataset.shown = key;
      const element = waitingCard(next, moment(), isLive);
      if (next.waiting.length) element.append(ageLegend());
      fill(waiting, element);
    }
    const groups = JSON.stringify([moment(), next.gangs]);
    if (groups !== gangs.dataset.shown && !gangs.contains(document.activeElement)) {
      gangs.dataset.shown = groups;
      fill(gangs, next.gangs && next.gangs.length ? gangsCard(next, moment()) : null);
    }
    fill(devices, next.devices.length || next.pendingClaims ? devicesCard(next) : null);
    map.maps[0].update(next.heat);
    if (plot) plot.update(next.series.times, [next.series.binds, next.series.arrivals]);
  }
  update(now);
  return update;
}

export async function nowPage(main) {
  document.title = "Now · Stowage";
  const place = h("div", { class: "main-cards" });
  const trouble = h("div", {});
  fill(main, trouble, place);
  fill(place, h("p", { class: "quiet", role: "status" }, "Looking at the cluster…"));
  let update = null;
  async function look() {
    try {
      const now = await ask("/api/now");
      fill(trouble);
      if (update && now.series.times.length > 1 === hadSeries) update(now);
      else { hadSeries = now.series.times.length > 1; update = showNow(place, now, { isLive: true, moment: () => null }); }
      if (now.isLive) window.setTimeout(look, AGAIN_MILLISECONDS);
    } catch (problem) {
      fill(trouble, errorBox(new Error(`The console does not answer: ${problem.message}`)));
      window.setTimeout(look, 2 * AGAIN_MILLISECONDS);
    }
  }
  let hadSeries = false;
  await look();
}

