// Page "Pod": why one pod waits, what would help, and how it came there.
import { ask, errorBox, saveButton } from "./ask.js";
import { atMoment, card, clockTime, dayTime, duration, fill, h, number, pageOf, plural, podLink } from "./dom.js";

const GROUPS_SHOWN = 12;
const SCORES_SHOWN = 12;

export function showPod(place, data, { isLive, moment }) {
  const [answer] = data.pods;
  const words = data.words;
  const children = [
    verdictCard(answer, words, data, isLive),
    ...(words.changes || words.guesses.length ? [helpCard(words, answer.preFilter, isLive, moment)] : []),
    ...(words.checks.length ? [whyCard(words)] : []),
  ];
  const fits = answer.nodes.filter((node) => node.feasible);
  if (fits.length) children.push(scoreCard(fits, answer));
  if (answer.nodes.some((node) => !node.feasible)) children.push(matrixCard(answer, data));
  children.push(storyCard(data));
  fill(place, children);
}

function verdictCard(answer, words, data, isLive) {
  const about = data.about;
  const facts = [
    about.node ? `on ${about.node}` : "without a node",
    `profile ${answer.profile}`,
    `priority ${number(about.priority)}`,
    ...Object.entries(about.requests).map(([name, amount]) => `${name} ${amount}`),
    about.age !== null ? `created ${duration(about.age)} ago` : null,
  ];
  return h("section", { class: `card verdict ${words.mood}`, "aria-label": "Verdict" },
    h("div", { class: "head" }, h("h1", {}, answer.pod), isLive ? saveButton("pod", () => data) : null),
    h("p", { class: "facts" }, facts.filter(Boolean).map((text) => h("span", {}, text))),
    h("p", { class: "say" }, words.verdict),
    words.remarks.map((text) => h("p", {}, text)));
}

function helpCard(words, whole, isLive, moment) {
  const changes = words.changes || [];
  const items = [
    ...words.guesses.map((text) => h("li", {}, h("span", { class: "what" }, h("span", { class: "tag warn" }, "misspelt?"), " ", text))),
    ...changes.map((change) => h("li", {}, h("span", { class: "what" }, sentence(change.text)),
      isLive && Object.keys(change.whatIf).length ? h("a", { class: "button no-print", href: pageOf("what-if", { ...change.whatIf, ...atMoment(moment) }) }, "Try it in What if") : null)),
  ];
  return card("What would help",
    changes.length ? h("p", { class: "quiet small" }, "Each of these was tried on a copy of the cluster: with that one change the pod finds a node.") : null,
    h("ul", { class: "help-list" }, items),
    changes.length ? null : h("p", {}, whole ? `First mend this: ${whole.reasons.join("; ")}. Until then no node will do.` : "No change that was tried would help."),
    words.untried ? h("p", { class: "quiet small" }, words.untried) : null);
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function whyCard(words) {
  return card("Why it fits nowhere",
    words.checks.map((check) => h("div", { class: "check" },
      h("div", { class: "line" }, h("strong", {}, check.plugin),
        h("span", { class: "quiet small" }, `rejects ${plural(check.rejects, "node")} of ${number(words.nodes)}; ${plural(check.fitsWithout, "node")} would fit without it`)),
      meter(check.rejects / (words.nodes || 1)),
      h("ul", {}, check.texts.map((text) => h("li", {}, text))))),
    words.nearest.length ? [h("h3", {}, "Nearest nodes"), h("ul", { class: "plain-list" }, words.nearest.map((text) => h("li", {}, text)))] : null);
}

function meter(share, kind = "") {
  const bar = h("span", { class: share > 1 ? "over" : "" });
  bar.style.width = `${Math.min(100, 100 * share)}%`;
  return h("div", { class: `meter ${kind}` }, bar);
}

// --- scores ---------------------------------------------------------------------------------------

function scoreCard(fits, answer) {
  const best = [...fits].sort((a, b) => b.total - a.total || (a.node < b.node ? -1 : 1));
  const own = answer.placed && best.find((node) => node.node === answer.placed.node);
  const shown = best.slice(0, SCORES_SHOWN);
  if (own && !shown.includes(own)) shown.push(own);
  const plugins = [...new Set(fits.flatMap((node) => Object.keys(node.scores)))];
  const telling = plugins.filter((name) => shown.some((node) => node.scores[name].weighted));
  const most = Math.max(1, ...shown.map((node) => node.total));
  return card("Scores of the nodes that fit",
    h("p", { class: "quiet small" }, `The highest sum wins; each plugin adds its weighted score.${own ? " ● is the node that the pod is on." : ""}`),
    h("ul", { class: "legend" }, telling.map((name, index) => h("li", {}, h("i", { class: `s${(index + 1) % 8}` }), name))),
    shown.map((node) => {
      const told = telling.map((name) => `${name} ${node.scores[name].weighted}`).join(", ");
      const parts = telling.map((name, index) => {
        const part = h("span", { class: `s${(index + 1) % 8}`, title: `${name} ${node.scores[name].weighted}` });
        part.style.width = `${(100 * node.scores[name].weighted) / most}%`;
        return part;
      });
      return h("div", { class: "score" }, h("span", { class: "name mono", title: node.node }, node === own ? `● ${node.node}` : node.node),
        h("span", { class: "parts", role: "img", "aria-label": told }, parts), h("span", { class: "total" }, number(node.total)));
    }),
    fits.length > shown.length ? h("p", { class: "quiet small" }, `and ${plural(fits.length - shown.length, "more node")}`) : null);
}

// --- verdict per node and plugin ------------------------------------------------------------------

function matrixCard(answer, data) {
  const plugins = data.words.filters;
  const groups = new Map();
  for (const node of answer.nodes) {
    const rejections = node.feasible ? [] : node.rejections || [{ plugin: node.plugin, reasons: node.reasons }];
    const key = node.feasible ? "" : JSON.stringify(rejections.map((each) => [each.plugin, each.reasons]));
    if (!groups.has(key)) groups.set(key, { rejections, nodes: [] });
    groups.get(key).nodes.push(node.node);
  }
  const rows = [...groups.values()].sort((a, b) => a.rejections.length - b.rejections.length || b.nodes.length - a.nodes.length);
  const used = plugins.filter((name) => rows.some((row) => row.rejections.some((each) => each.plugin === name)));
  const others = [...new Set(rows.flatMap((row) => row.rejections.map((each) => each.plugin)))].filter((name) => !used.includes(name));
  const columns = [...used, ...others];
  const place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Verdict per node and plugin" });
  const draw = (shown) => fill(place, h("table", { class: "matrix" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "nodes"), columns.map((name) => h("th", { scope: "col", class: "plugin" }, name ? breakable(name) : "not looked at")), h("th", { scope: "col" }, "reasons"))),
    h("tbody", {}, rows.slice(0, shown).map((row) => matrixRow(row, columns)))));
  draw(GROUPS_SHOWN);
  const more = rows.length - GROUPS_SHOWN;
  return card("Verdict per node and plugin",
    h("p", { class: "quiet small" }, "Nodes of which every plugin says the same are one row. ", mark("no"), " rejects, ", mark("yes"), " lets pass. Plugins that let every node pass are left out."),
    place,
    more > 0 ? h("button", { type: "button", class: "no-print", onclick: (event) => { draw(rows.length); event.target.remove(); } }, `Show ${plural(more, "more row")}`) : null);
}

// A plugin's name may be broken between its words.
function breakable(name) {
  return name.split(/(?<=[a-z])(?=[A-Z])/).flatMap((word, index) => (index ? [h("wbr"), word] : [word]));
}

function matrixRow(row, columns) {
  const [first] = row.nodes;
  const names = row.nodes.length === 1 ? h("span", { class: "mono" }, first)
    : h("details", {}, h("summary", {}, `${plural(row.nodes.length, "node")}, such as `, h("span", { class: "mono" }, first)),
      h("div", { class: "mono" }, row.nodes.slice(0, 500).join(", "), row.nodes.length > 500 ? ` and ${number(row.nodes.length - 500)} more` : ""));
  const reasons = row.rejections.flatMap((each) => each.reasons);
  return h("tr", {}, h("td", { class: "wrap" }, names),
    columns.map((name) => h("td", { class: "cell", "data-plugin": name || "not looked at" }, mark(row.rejections.some((each) => each.plugin === name) ? "no" : "yes"))),
    h("td", { class: "wrap" }, row.rejections.length ? reasons.join("; ") : h("span", { class: "tag good" }, "fits")));
}

function mark(kind) {
  return h("span", { class: `mark ${kind}`, role: "img", "aria-label": kind === "no" ? "rejects" : "lets pass" }, kind === "no" ? "✕" : "✓");
}

// --- story ----------------------------------------------------------------------------------------

function storyCard(data) {
  const kind = (entry) => (/^(bound|confirmed|scheduled|assumed)/i.test(entry.what) ? "good" : /fail|reject|unschedulable|evict|gone/i.test(entry.what) ? "bad" : "");
  const days = new Set(data.story.map((entry) => entry.time.slice(0, 10)));
  const entries = data.story.map((entry) => h("li", { class: kind(entry) },
    h("time", { datetime: entry.time }, days.size > 1 ? dayTime(entry.time) : clockTime(entry.time)),
    h("strong", {}, entry.what), entry.attempt ? h("span", { class: "quiet small" }, ` attempt ${entry.attempt}`) : null,
    entry.detail ? h("div", {}, entry.detail) : null));
  const where = data.state;
  return card("Its story",
    where ? h("p", {}, `It is ${where.place}${where.attempts ? `; a node was looked for ${where.attempts === 1 ? "once" : `${number(where.attempts)} times`}` : ""}.`) : null,
    where && where.waitsFor ? h("ul", { class: "plain-list" }, where.waitsFor.map((wake) => h("li", {}, `${wake.plugin} looks again after: ${[...new Set(wake.events.flatMap((event) => event.split("|")))].join(", ")}`))) : null,
    entries.length ? [days.size === 1 ? h("p", { class: "quiet small" }, `${[...days][0]}, UTC`) : null, h("ol", { class: "story" }, entries)]
      : h("p", { class: "quiet" }, "Nothing is known of its past here."),
    data.notes.map((text) => h("p", { class: "quiet small" }, text)));
}

// --- the page -------------------------------------------------------------------------------------

export async function podPage(main, query) {
  const moment = query.get("at");
  const place = h("div", { class: "hidden" });
  const found = h("div", {});
  const field = h("input", { type: "search", id: "pod-search", autocomplete: "off", placeholder: "part of a name, or namespace/name", value: query.get("pod") || query.get("q") || "" });
  const form = h("form", { class: "row", role: "search", onsubmit: (event) => { event.preventDefault(); look(); } },
    h("label", { for: "pod-search" }, "Find a pod"), field, h("button", { type: "submit" }, "Find"));
  fill(main, h("section", { class: "card no-print" }, form, found), place);
  let asked = 0;

  async function look() {
    const turn = (asked += 1);
    try {
      const list = await ask("/api/pods", { q: field.value, ...atMoment(moment) });
      if (turn !== asked) return;
      const rows = list.pods.map((pod) => h("li", {}, h("span", { class: "what" }, podLink(pod.pod, moment)),
        pod.node ? h("span", { class: "quiet small" }, `on ${pod.node}`) : h("span", { class: "tag bad" }, "waits")));
      const more = list.count - list.pods.length;
      fill(found, h("ul", { class: "help-list" }, rows), list.count ? null : h("p", { class: "quiet" }, "There is no such pod."),
        more > 0 ? h("p", { class: "quiet small" }, `and ${plural(more, "more pod")}`) : null);
    } catch (problem) {
      fill(found, errorBox(problem));
    }
  }

  const pod = query.get("pod");
  if (!pod) {
    document.title = "Pod · Stowage";
    field.addEventListener("input", look);
    await look();
    return;
  }
  document.title = `${pod} · Stowage`;
  place.className = "main-cards";
  fill(place, h("p", { class: "quiet", role: "status" }, "Judging the pod…"));
  try {
    const data = await ask("/api/explain", { pod, ...atMoment(moment) });
    showPod(place, data, { isLive: true, moment });
  } catch (problem) {
    fill(place, errorBox(problem));
  }
}
