// Page "What if": a copy of the cluster is changed, and all pods that wait find their places there.
import { ask, computed, saveButton } from "./ask.js";
import { atMoment, card, figures, fill, h, number, plural, podLink, table } from "./dom.js";
import { heatMaps, useTable } from "./heat.js";

const ROWS_SHOWN = 15;
// What can be asked, as the options of `stowage what-if` are called.
const CHANGES = {
  drain: { told: "Drain a node", hint: "node", list: "nodes" },
  "remove-taint": { told: "Remove a taint from all nodes", hint: "KEY[=VALUE][:EFFECT]", list: "taints" },
  scale: { told: "Scale a workload", hint: "KIND/[NAMESPACE/]NAME=N", list: "workloads", end: "=" },
  uncordon: { told: "Uncordon a node", hint: "node", list: "nodes" },
  label: { told: "Label a node", hint: "NODE:KEY=VALUE, or NODE:KEY-", list: "nodes", end: ":" },
  tolerate: { told: "Let a pod tolerate a taint", hint: "[NAMESPACE/]POD:KEY[=VALUE][:EFFECT]", list: "waiting", end: ":" },
  delete: { told: "Delete a node, pod or workload", hint: "KIND/[NAMESPACE/]NAME", list: "things" },
};

export async function whatIfPage(main, query) {
  document.title = "What if · Stowage";
  const moment = query.get("at");
  const names = await ask("/api/names", atMoment(moment));
  const asked = { ...Object.fromEntries(Object.keys(CHANGES).map((name) => [name, query.getAll(name)])), add: [] };
  if (query.get("like")) asked.add.push({ count: Number(query.get("add-nodes") || 1), like: query.get("like") });
  const list = h("ul", { class: "help-list", "aria-label": "Changes" });
  const result = h("div", { class: "main-cards" });
  const yaml = h("textarea", { id: "apply", spellcheck: "false", placeholder: "apiVersion: apps/v1\nkind: Deployment\n…" });
  const go = h("button", { type: "submit", class: "main" }, "What would happen?");

  function drawList() {
    const rows = Object.entries(CHANGES).flatMap(([kind, { told }]) => asked[kind].map((value) => item(`${told}: ${value}`, () => asked[kind].splice(asked[kind].indexOf(value), 1))));
    rows.push(...asked.add.map((each) => item(`Add ${plural(each.count, "node")} like ${each.like}`, () => asked.add.splice(asked.add.indexOf(each), 1))));
    fill(list, rows.length ? rows : h("li", { class: "quiet" }, "No change yet. Add some, or paste objects below."));
  }

  function item(text, remove) {
    return h("li", {}, h("span", { class: "what" }, text), h("button", { type: "button", "aria-label": `Take away: ${text}`, onclick: () => { remove(); drawList(); } }, "Take away"));
  }

  const kind = h("select", { id: "kind" }, Object.entries(CHANGES).map(([name, { told }]) => h("option", { value: name }, told)), h("option", { value: "add" }, "Add nodes"));
  const value = h("input", { id: "value", list: "known", autocomplete: "off" });
  const count = h("input", { id: "count", type: "number", min: "1", max: "100000", value: "1", "aria-label": "How many nodes" });
  const known = h("datalist", { id: "known" });
  const add = h("button", { type: "button", onclick: addChange }, "Add change");
  const valueLabel = h("label", { for: "value" });

  function drawKind() {
    const chosen = CHANGES[kind.value];
    count.classList.toggle("hidden", Boolean(chosen));
    value.placeholder = chosen ? chosen.hint : "node that they are like";
    valueLabel.textContent = chosen ? "Which" : "Like";
    fill(known, (names[chosen ? chosen.list : "nodes"] || []).slice(0, 2000).map((name) => h("option", { value: chosen?.end ? `${name}${chosen.end}` : name })));
  }

  function addChange() {
    const text = value.value.trim();
    if (!text) { value.focus(); return; }
    if (kind.value === "add") asked.add.push({ count: Math.max(1, Number(count.value) || 1), like: text });
    else asked[kind.value].push(text);
    value.value = "";
    drawList();
    value.focus();
  }

  function question() {
    const apply = yaml.value.trim();
    return { drain: asked.drain, removeTaint: asked["remove-taint"], scale: asked.scale, delete: asked.delete, uncordon: asked.uncordon, label: asked.label, tolerate: asked.tolerate, addNodes: asked.add, apply: apply ? [apply] : [], at: moment === null ? null : Number(moment) };
  }

  async function run(event) {
    event?.preventDefault();
    if (value.value.trim()) addChange();
    go.disabled = true;
    const told = [...list.querySelectorAll(".what")].map((each) => each.textContent);
    if (yaml.value.trim()) told.push("Apply objects");
    await computed("/api/what-if", question(), result, (found) => showWhatIf(result, { ...found, asked: told }, { isLive: true, moment }));
    go.disabled = false;
  }

  kind.addEventListener("change", drawKind);
  value.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); addChange(); } });
  drawKind();
  drawList();
  fill(main, h("section", { class: "card" }, h("h1", {}, "What if"),
    h("p", { class: "quiet" }, "The changes are made to a copy of the cluster; then every pod that waits is scheduled there, preemption included. The cluster itself is only read."),
    h("form", { class: "form", onsubmit: run },
      h("div", { class: "row" }, h("label", { for: "kind" }, "Change"), kind, valueLabel, value, count, known, add),
      list,
      h("details", {}, h("summary", {}, "Apply objects (YAML or JSON)"), h("label", { for: "apply" }, "Objects to add, or to put in the place of those of the same name"), yaml),
      h("div", { class: "row" }, go))), result);
  if (asked.add.length || Object.keys(CHANGES).some((name) => asked[name].length)) await run();
}

export function showWhatIf(place, found, { isLive, moment = null }) {
  const movers = found.placements.filter((each) => each.from);
  const fresh = found.placements.filter((each) => !each.from);
  const homeless = found.homeless.filter((each) => !each.waited);
  const waiting = found.homeless.filter((each) => each.waited);
  const use = useTable(found.use);
  fill(place,
    h("section", { class: `card verdict ${homeless.length ? "bad" : "good"}` },
      h("div", { class: "head" }, h("h2", {}, verdictOf(found, homeless)), isLive ? saveButton("what-if", () => found) : null),
      figures([["move to another node", number(movers.length)], ["find a node that had none", number(fresh.length)],
        ["would be homeless", number(homeless.length), homeless.length ? "bad" : ""], ["go on waiting", number(waiting.length)], ["evicted for others", number(found.victims.length), found.victims.length ? "bad" : ""]]),
      found.asked?.length && !isLive ? h("p", { class: "asked" }, "Asked: ", found.asked.map((text, index) => [index ? ", " : "", h("span", { class: "mono" }, text)])) : null,
      found.warnings.map((text) => h("p", { class: "note" }, text))),
    found.homeless.length ? leftCard(homeless, waiting, isLive, moment) : null,
    card("Nodes before and after", heatMaps([{ heat: found.heat.before, title: "Before" }, { heat: found.heat.after, before: found.heat.before, title: "After" }]).element),
    found.placements.length ? movesCard(found.placements, isLive, moment) : null,
    card("Requested of what the nodes have", table(use.headers, use.rows, "stack")));
}

function verdictOf(found, homeless) {
  if (homeless.length) return `${plural(homeless.length, "pod")} would be left without a node.`;
  if (!found.placements.length && !found.homeless.length) return "No pod moves, and no pod waits.";
  return found.placements.length ? `${plural(found.placements.length, "pod")} ${found.placements.length === 1 ? "finds" : "find"} a node; none loses its own.` : "No pod moves.";
}

// What nodes say, without what preemption says of them; names that are quoted are left out, so that
// pods which lack different things of one kind are one row. A pod's page has all of it.
function shortReason(pod) {
  return pod.message.replace(/((\. no new claims to deallocate,|\. still not schedulable,|\.) preemption: .*|\. not found)$/, "").replace(/"[^"]*"/g, '"…"');
}

function leftCard(homeless, waiting, isLive, moment) {
  const groups = (pods) => {
    const byReason = new Map();
    for (const pod of pods) byReason.set(shortReason(pod), [...(byReason.get(shortReason(pod)) || []), pod]);
    return [...byReason].sort((a, b) => b[1].length - a[1].length);
  };
  const rows = (pods, mood, what) => groups(pods).map(([message, those]) => [
    h("div", {}, message || "no reason is known", h("div", { class: "small" }, those.slice(0, 5).map((pod, index) => [index ? ", " : "", isLive && pod.waited ? podLink(pod.pod, moment) : h("span", { class: "mono" }, pod.pod)]), those.length > 5 ? ` and ${number(those.length - 5)} more` : "")),
    h("span", { class: `tag ${mood}` }, what), number(those.length)]);
  return card("Pods without a node", table(["reason", "what becomes of them", { text: "pods", number: true }],
    [...rows(homeless, "bad", "would be homeless"), ...rows(waiting, "warn", "would go on waiting")], "stack"));
}

function movesCard(placements, isLive, moment) {
  const place = h("div", {});
  const row = (each) => [isLive && each.from ? podLink(each.pod, moment) : h("span", { class: "mono" }, each.pod), each.from || "–", each.node, each.victims.join(", ")];
  const hasVictims = placements.some((each) => each.victims.length);
  const headers = ["pod", "from", "to", ...(hasVictims ? ["evicted for it"] : [])];
  const draw = (count) => fill(place, table(headers, placements.slice(0, count).map((each) => row(each).slice(0, headers.length)), "stack"));
  draw(ROWS_SHOWN);
  const more = placements.length - ROWS_SHOWN;
  return card("Pods that find a node", place,
    more > 0 ? h("button", { type: "button", class: "no-print", onclick: (event) => { draw(placements.length); event.target.remove(); } }, `Show ${plural(more, "more pod")}`) : null);
}
