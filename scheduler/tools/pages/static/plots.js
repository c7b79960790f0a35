// Plots over time, drawn by uPlot; its colours follow the page's.
import { clockTime, color, h, number } from "./dom.js";

const HEIGHT = 190;

function plotOptions({ width, lines, isTimeOfDay, unit }) {
  const xText = (value) => (isTimeOfDay ? clockTime(value * 1000) : `${number(value, value % 1 ? 1 : 0)} s`);
  const yText = (value) => `${number(value, value % 1 ? 2 : 0)}${unit || ""}`;
  // Without a pointer, and on a page that is printed, the legend tells the last moment.
  const told = (text) => (plot, value, line, index) => {
    const shown = index === null || index === undefined ? plot.data[line].at(-1) : value;
    return shown === null || shown === undefined ? "" : text(shown);
  };
  const quiet = color("--quiet");
  const axis = { stroke: quiet, grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
  return {
    width, height: HEIGHT, cursor: { y: false, points: { size: 6 } },
    scales: { x: { time: Boolean(isTimeOfDay) }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [{ ...axis, space: 76, values: (_plot, values) => values.map(xText) },
      { ...axis, size: 56, values: (_plot, values) => values.map(yText) }],
    series: [{ label: isTimeOfDay ? "at, UTC" : "at", value: told(xText) },
      ...lines.map((line, index) => ({
        label: line.name, stroke: color(`--series-${index + 1}`), width: 2, dash: line.isDashed ? [6, 4] : undefined, points: { show: false },
        value: told(yText),
      }))],
  };
}

export function timePlot({ title, times, lines, isTimeOfDay = false, unit = "" }) {
  const element = h("div", { class: "plot", role: "img", "aria-label": described(title, lines, unit) });
  let data = [times, ...lines.map((line) => line.values)];
  let plot = null;
  function draw() {
    const width = element.clientWidth;
    if (!width) return;
    if (plot) plot.destroy();
    plot = new uPlot(plotOptions({ width, lines, isTimeOfDay, unit }), data, element);
  }
  let drawnWidth = 0;
  new ResizeObserver(() => { if (element.clientWidth !== drawnWidth) { drawnWidth = element.clientWidth; draw(); } }).observe(element);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return {
    element,
    update(nextTimes, values) { data = [nextTimes, ...values]; if (plot) plot.setData(data); },
  };
}

function described(title, lines, unit) {
  const told = lines.map((line) => {
    const known = line.values.filter((value) => value !== null);
    return `${line.name} up to ${number(Math.max(0, ...known), 1)}${unit}`;
  });
  return `${title}: ${told.join(", ")}`;
}
