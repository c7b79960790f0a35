// Nodes as cells of a heat map by zone, on one canvas: thousands of nodes cost one drawing.
import { choice, color, fill, h, percent, plural } from "./dom.js";

const GAP = 2;
const ZONE_GAP = 14;
const LABEL = 20;
const LARGEST = 92;

function mixed(from, to, share) {
  const parts = (text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  const [a, b] = [parts(from), parts(to)];
  return `rgb(${a.map((value, index) => Math.round(value + (b[index] - value) * share)).join(",")})`;
}

function zonesOf(heat) {
  const zones = heat.zones.map((name) => ({ name, nodes: [] }));
  heat.zone.forEach((zone, node) => zones[zone].nodes.push(node));
  return zones;
}

// Cells as large as they may be so that all nodes are in a picture of at most this height.
function cellSize(zones, width, height) {
  for (let size = LARGEST; size > 7; size -= 1) {
    const perRow = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
    const rows = zones.reduce((sum, zone) => sum + Math.ceil(zone.nodes.length / perRow), 0);
    if (rows * Math.min(size + GAP, 34) + zones.length * (LABEL + ZONE_GAP) <= height) return size;
  }
  return 7;
}

// Pictures beside each other have cells of one size: that of the one with most nodes.
function laidOut(heat, width, beside) {
  const zones = zonesOf(heat);
  const most = Math.max(340, Math.min(620, width));
  const size = Math.min(...[heat, ...beside].map((each) => cellSize(zonesOf(each), width, most)));
  const height = Math.min(size, 32);
  const perRow = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
  const cells = new Array(heat.names.length);
  const labels = [];
  // Zones that are short enough share a line.
  const [widest] = zones.map((zone) => zone.nodes.length).sort((a, b) => b - a);
  const blockWidth = widest * (size + GAP) + 2 * ZONE_GAP;
  const blocks = widest > perRow ? 1 : Math.max(1, Math.floor((width + 2 * ZONE_GAP) / blockWidth));
  let top = 0;
  for (let first = 0; first < zones.length; first += blocks) {
    const line = zones.slice(first, first + blocks);
    line.forEach((zone, block) => {
      const left = block * blockWidth;
      labels.push({ zone, x: left, y: top + 13 });
      zone.nodes.forEach((node, index) => {
        cells[node] = { x: left + (index % perRow) * (size + GAP), y: top + LABEL + Math.floor(index / perRow) * (height + GAP), w: size, h: height };
      });
    });
    top += LABEL + Math.ceil(Math.max(...line.map((zone) => zone.nodes.length)) / perRow) * (height + GAP) + ZONE_GAP;
  }
  return { cells, labels, perRow, height: Math.max(top - ZONE_GAP, LABEL), order: zones.flatMap((zone) => zone.nodes) };
}

function nodeText(heat, node, resource, before) {
  const share = heat.shares[resource][node];
  const was = before && before.shares[resource] ? before.shares[resource][before.names.indexOf(heat.names[node])] : undefined;
  const change = before ? (was === undefined ? "new, " : `${percent(was)} → `) : "";
  const closed = heat.closed[node] ? ", takes no new pods (cordoned)" : "";
  return share === null ? `${heat.names[node]}: has no ${resource}${closed}` : `${heat.names[node]}: ${change}${percent(share)} of ${resource} requested${closed}`;
}

function resourcesOf(...heats) {
  const names = new Set(heats.flatMap((heat) => Object.keys(heat.shares)));
  const first = ["cpu", "memory"].filter((name) => names.delete(name));
  const last = ["ephemeral-storage", "pods"].filter((name) => names.delete(name));
  return [...first, ...[...names].sort(), ...last];
}

// `chosen(name)` gives what is shown about a node that is clicked, if anything.
// `other` is the same cluster before or after: nodes that differ are outlined.
function heatMap(heat, { resource, before, other, beside, chosen, title }) {
  const rowOf = new Map((other?.names || []).map((name, row) => [name, row]));
  let shown = resource || resourcesOf(heat)[0];
  let place = null;
  let current = -1;
  const canvas = h("canvas", { tabindex: "0", role: "img" });
  const about = h("div", { class: "chosen-node", "aria-live": "polite" });
  const element = h("div", { class: "heat" }, canvas, about);

  function draw() {
    const width = element.clientWidth;
    if (!width || !heat.names.length) return;
    place = laidOut(heat, width, beside);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(place.height * ratio);
    canvas.style.height = `${place.height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const [low, high, over, gone, text, quiet, cardColor, changed] =
      ["--heat-0", "--heat-1", "--over", "--gone", "--text", "--quiet", "--card", "--changed"].map(color);
    const shades = Array.from({ length: 21 }, (_, step) => mixed(low, high, step / 20));
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = quiet;
    const shares = heat.shares[shown] || [];
    for (const { zone, x, y } of place.labels) pen.fillText(`${zone.name} · ${plural(zone.nodes.length, "node")}${average(zone.nodes.map((node) => shares[node]))}`, x, y);
    heat.names.forEach((name, node) => {
      const cell = place.cells[node];
      const share = shares[node];
      const isNone = share === null || share === undefined;
      pen.fillStyle = isNone ? cardColor : share > 1.0001 ? over : shades[Math.round(20 * Math.min(1, share))];
      pen.fillRect(cell.x, cell.y, cell.w, cell.h);
      if (isNone) {
        pen.strokeStyle = gone;
        pen.strokeRect(cell.x + 0.5, cell.y + 0.5, cell.w - 1, cell.h - 1);
      }
      if (heat.closed[node]) {
        pen.strokeStyle = share > 0.5 ? low : quiet;
        pen.beginPath();
        for (let x = -cell.h; x < cell.w; x += 6) {
          const [from, to] = [Math.max(x, 0), Math.min(x + cell.h, cell.w)];
          pen.moveTo(cell.x + from, cell.y + cell.h - (from - x));
          pen.lineTo(cell.x + to, cell.y + cell.h - (to - x));
        }
        // A name is to be read through it.
        pen.globalAlpha = cell.w >= 56 ? 0.45 : 1;
        pen.stroke();
        pen.globalAlpha = 1;
      }
      if (differs(node, share)) {
        pen.lineWidth = 2;
        pen.strokeStyle = changed;
        pen.strokeRect(cell.x, cell.y, cell.w, cell.h);
        pen.lineWidth = 1;
      }
      if (cell.w >= 56 && !isNone) {
        pen.fillStyle = share > 0.5 ? cardColor : text;
        const cut = Math.floor((cell.w - 8) / 7.2);
        pen.fillText(name.length > cut ? `…${name.slice(1 - cut)}` : name, cell.x + 4, cell.y + cell.h / 2 + 4);
      }
    });
    if (current >= 0) {
      const cell = place.cells[current];
      pen.lineWidth = 2;
      pen.strokeStyle = text;
      pen.strokeRect(cell.x, cell.y, cell.w, cell.h);
    }
    canvas.setAttribute("aria-label", `${title || "Nodes"} by zone, how much ${shown} is requested: ` +
      `${summary(shares)}. Arrow keys go from node to node${chosen ? ", Enter shows its pods" : ""}.`);
  }

  // The node is new, gone, or its use of what is shown is another one.
  function differs(node, share) {
    if (!other) return false;
    const was = rowOf.get(heat.names[node]);
    if (was === undefined) return true;
    const then = other.shares[shown]?.[was] ?? null;
    return other.closed[was] !== heat.closed[node] || Math.abs((then ?? -1) - (share ?? -1)) > 1e-9;
  }

  function average(shares) {
    const known = shares.filter((share) => share !== null && share !== undefined);
    return known.length ? `, ${percent(known.reduce((sum, share) => sum + share, 0) / known.length)} full on average` : "";
  }

  function summary(shares) {
    const known = shares.filter((share) => share !== null);
    const mean = known.reduce((sum, share) => sum + share, 0) / (known.length || 1);
    return `${plural(known.length, "node")}, ${percent(mean)} on average`;
  }

  function point(node) {
    if (node === current) return;
    current = node;
    if (node >= 0) fill(about, nodeText(heat, node, shown, before));
    draw();
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return place ? place.cells.findIndex((cell) => x >= cell.x && x < cell.x + cell.w && y >= cell.y && y < cell.y + cell.h) : -1;
  }

  async function open() {
    if (current < 0 || !chosen) return;
    const node = current;
    const told = await chosen(heat.names[node]);
    if (node === current) fill(about, h("div", {}, nodeText(heat, node, shown, before)), told);
  }

  canvas.addEventListener("pointermove", (event) => { const node = at(event); if (node >= 0) point(node); });
  canvas.addEventListener("click", (event) => { const node = at(event); if (node >= 0) { point(node); open(); } });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: place?.perRow, ArrowUp: -(place?.perRow || 0) }[event.key];
    if (step) {
      event.preventDefault();
      const index = place.order.indexOf(current);
      point(place.order[Math.min(place.order.length - 1, Math.max(0, index < 0 ? 0 : index + step))]);
    } else if (event.key === "Enter") open();
  });
  new ResizeObserver(draw).observe(element);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  fill(about, h("span", { class: "quiet" }, chosen ? "Point at a node to read its use; click it to see its pods." : "Point at a node to read its use."));
  return {
    element,
    show(name) { shown = name; draw(); },
    update(next) { heat = next; if (current >= heat.names.length) current = -1; draw(); },
  };
}

// Several maps of the same cluster side by side, with one choice of the resource.
export function heatMaps(heats, chosen) {
  const resources = resourcesOf(...heats.map((each) => each.heat));
  const maps = heats.map((each) => heatMap(each.heat, { resource: resources[0], before: each.before, other: heats.find((one) => one !== each)?.heat, beside: heats.filter((one) => one !== each).map((one) => one.heat), chosen, title: each.title }));
  const pick = (name) => maps.forEach((map) => map.show(name));
  const element = h("div", {},
    h("div", { class: "row small" }, choice("Resource", resources, resources[0], pick), scaleOf(heats)),
    h("div", { class: heats.length > 1 ? "columns" : "" }, maps.map((map, index) =>
      h("div", {}, heats.length > 1 ? h("h3", {}, heats[index].title) : null, map.element))));
  return { element, maps };
}

function scaleOf(heats) {
  const hasClosed = heats.some((each) => each.heat.closed.some(Boolean));
  return h("span", { class: "scale" }, "0\u00a0%", h("i"), "100\u00a0%", h("b"), "more than there is", hasClosed ? " · hatched: cordoned" : "", " · outlined: has none",
    heats.length > 1 ? [" · ", h("b", { class: "changed" }), "changes"] : null);
}

export function useTable(use) {
  const zones = Object.keys(use);
  const resources = [...new Set(zones.flatMap((zone) => Object.keys(use[zone])))];
  const told = (share) => {
    if (!share || share.after === null) return "–";
    const [before, after] = [percent(share.before, 0), percent(share.after, 0)];
    if (before !== after) return `${before} → ${after}`;
    const [was, is] = [percent(share.before, 1), percent(share.after, 1)];
    return share.before === share.after || was === is ? after : `${was} → ${is}`;
  };
  return { headers: ["zone", ...resources.map((text) => ({ text, number: true }))], rows: zones.map((zone) => [zone, ...resources.map((name) => told(use[zone][name]))]) };
}
