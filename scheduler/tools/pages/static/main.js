// The pages: which one, with which data. A saved page has its data in it and asks no server.
import { ask, errorBox } from "./ask.js";
import { fill, h, pageOf } from "./dom.js";
import { nowPage, showNow } from "./now.js";
import { podPage, showPod } from "./pod.js";
import { replayPage, showComparison } from "./replay.js";
import { showWhatIf, whatIfPage } from "./whatif.js";

const PAGES = { now: nowPage, pod: podPage, "what-if": whatIfPage, replay: replayPage };
const TITLES = { now: "Now", pod: "Pod", "what-if": "What if", replay: "Replay" };
const SAVED = {
  now: (main, data) => showNow(main, data, { isLive: false, moment: () => null }),
  pod: (main, data) => data.each.forEach((one) => showPod(main.appendChild(h("div", { class: "main-cards" })), one, { isLive: false })),
  "what-if": (main, data) => showWhatIf(main, data, { isLive: false }),
  replay: (main, data) => showComparison(main, data, { isLive: false }),
};

async function begin() {
  const main = document.querySelector("main");
  const saved = document.getElementById("saved");
  if (saved) {
    const { page, data } = JSON.parse(saved.textContent);
    document.title = `${TITLES[page]} · Stowage`;
    fill(main);
    SAVED[page](main, page === "pod" && !data.each ? { each: [data] } : data);
    return;
  }
  const page = document.body.dataset.page;
  try {
    const about = await ask("/api/about");
    const links = Object.keys(PAGES).filter((name) => name !== "replay" || about.hasPast);
    fill(document.querySelector("nav"), links.map((name) => h("a", { href: pageOf(name), "aria-current": name === page ? "page" : null }, TITLES[name])));
    fill(document.querySelector(".where"), about.title);
    fill(document.querySelector("footer"), about.notices.map((text) => h("p", {}, text)), h("p", {}, `Stowage ${about.version}. This page only reads: nothing in the cluster is changed.`));
    await PAGES[page](main, new URLSearchParams(window.location.search), about);
  } catch (problem) {
    fill(main, errorBox(problem));
  }
}

begin();
