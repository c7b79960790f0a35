// Elements and texts. Names from the cluster become text nodes only, never markup.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function card(title, ...children) {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

export function number(value, digits = 0) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function percent(share, digits = 0) {
  return share === null || share === undefined ? "–" : `${number(100 * share, digits)} %`;
}

export function plural(count, one, several) {
  return `${number(count)} ${count === 1 ? one : several || one + "s"}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${number(seconds, 1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function clockTime(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toISOString().slice(11, 23).replace(/\.000$/, "");
}

export function dayTime(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

export function podLink(pod, moment, text = pod) {
  return h("a", { href: pageOf("pod", { pod, ...atMoment(moment) }), class: "mono" }, text);
}

// The part of a query that names a moment of a recording, if there is one; 0 is its start.
export function atMoment(moment) {
  return moment === null || moment === undefined ? {} : { at: moment };
}

export function pageOf(page, query = {}) {
  return withQuery(page === "now" ? "/" : `/${page}`, query);
}

// A path with a query; a list is a name that is there several times.
export function withQuery(path, query = {}) {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  const text = new URLSearchParams(pairs).toString();
  return text ? `${path}?${text}` : path;
}

export function choice(label, options, chosen, choose) {
  const buttons = options.map((option) =>
    h("button", { type: "button", "aria-pressed": String(option === chosen), onclick: () => pick(option) }, option));
  function pick(option) {
    options.forEach((each, index) => buttons[index].setAttribute("aria-pressed", String(each === option)));
    choose(option);
  }
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

export function figures(entries) {
  return h("dl", { class: "figures" }, entries.filter(Boolean).map(([name, value, kind]) =>
    h("div", { class: kind || "" }, h("dt", {}, name), h("dd", {}, value))));
}

export function table(headers, rows, kind = "") {
  const names = headers.map((header) => (typeof header === "string" ? { text: header } : header));
  return h("div", { class: "scroll", tabindex: rows.length > 8 ? "0" : null, role: rows.length > 8 ? "region" : null, "aria-label": rows.length > 8 ? names[0].text : null },
    h("table", { class: kind },
      h("thead", {}, h("tr", {}, names.map((each) => h("th", { scope: "col", class: each.number ? "number" : "" }, each.text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, index) =>
        h("td", { class: names[index].number ? "number" : "wrap", "data-name": kind === "stack" && index ? names[index].text : null }, value)))))));
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
