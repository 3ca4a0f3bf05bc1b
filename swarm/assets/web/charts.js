// Lines over rounds, drawn by uPlot: direct labels at their ends, a readout below, colours that colour-blind people tell apart.

import { el, figure3, isNumber } from "./text.js";

const LIGHT = ["#0072b2", "#c24e00", "#00775a", "#a8478a", "#8a6100", "#2b7fb8", "#5b5b5b", "#7a3b00"];
const DARK = ["#62b6f0", "#ff9a57", "#3fd0a4", "#eda3d3", "#f0c24a", "#9fd3ff", "#c4c4c4", "#d9a273"];
const DASHES = [[], [7, 4], [2, 3]];
const dark = matchMedia("(prefers-color-scheme: dark)");

export const colour = (place) => (dark.matches ? DARK : LIGHT)[place % LIGHT.length];
export const dash = (place) => DASHES[Math.floor(place / LIGHT.length) % DASHES.length];
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // format: how a value is said; top: the least upper end of the axis; height: pixels.
  constructor(title, { note = "", format = figure3, top = 0, height = 220, small = false } = {}) {
    Object.assign(this, { title, format, top, height, small, drawn: null, shape: "" });
    this.readout = el("p", { class: "readout", "aria-hidden": "true" });
    this.box = el("div", { class: "plot", role: "img" });
    this.note = el("p", { class: "note" }, note);
    this.root = el("figure", { class: small ? "chart small" : "chart" }, el("figcaption", {}, el("h3", {}, title), note ? this.note : null), this.box, this.readout);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.box);
    dark.addEventListener("change", (this.recolour = () => this.redraw()));
  }

  // lines: {label, values, colour, dash, width, faint, band, format}; format: of its values, where it is not the chart's; band: the place of the line below it that the area reaches to.
  draw(rounds, lines) {
    this.asked = [rounds, lines];
    const known = lines.some((line) => line.values.some((value) => value !== null));
    this.box.setAttribute("aria-label", this.inWords(rounds, lines));
    if (!known) {
      this.clear();
      this.box.replaceChildren(el("p", { class: "empty" }, "Nothing to draw yet."));
      this.readout.textContent = "";
      return;
    }
    const data = [rounds, ...lines.map((line) => line.values)];
    const shape = JSON.stringify(lines.map(({ label, faint, band, place }) => [label, faint, band, place]));
    if (this.drawn && shape === this.shape) this.drawn.setData(data);
    else this.make(data, lines, shape);
    this.say(null);
  }

  redraw() {
    this.shape = "";
    if (this.asked) this.draw(...this.asked);
  }

  make(data, lines, shape) {
    this.clear();
    this.box.replaceChildren();
    const width = Math.max(160, this.box.clientWidth);
    const axis = { stroke: ink("--soft"), grid: { stroke: ink("--faint"), width: 1 }, ticks: { show: false }, font: `12px ${ink("--font")}` };
    const longest = Math.max(0, ...lines.map((line) => (line.faint ? 0 : line.label.length)));
    this.shape = shape;
    this.drawn = new uPlot({
      width, height: this.height, padding: [8, longest ? Math.min(14 + 7 * longest, width / 3) : 12, 0, 0], legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false } },
      scales: { x: { time: false, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(this.top, (high ?? 1) * 1.06) || 1] } },
      axes: [{ ...axis, size: 28, space: 60, incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000], values: (_, values) => values.map((value) => value.toLocaleString("en")) },
        { ...axis, size: 54, space: this.small ? 40 : 34, values: (_, values) => values.map((value) => this.format(value)) }],
      series: [{}, ...lines.map((line, place) => ({
        label: line.label, stroke: line.colour ?? colour(place), width: line.width ?? (line.faint ? 1 : 2), dash: line.dash ?? [], spanGaps: false,
        alpha: line.faint ? 0.55 : 1, points: { show: data[0].length < 2 || line.values.filter((value) => value !== null).length < 2 },
      }))],
      bands: lines.flatMap((line, place) => (line.band === undefined ? [] : [{ series: [place + 1, line.band + 1], fill: line.fill }])),
      hooks: { draw: [(plot) => this.label(plot, lines)], setCursor: [(plot) => this.say(plot.cursor.idx)] },
    }, data, this.box);
  }

  // The name of a line stands at its end, so that no legend is needed.
  label(plot, lines) {
    const scale = devicePixelRatio || 1;
    const ends = lines.flatMap((line, place) => {
      const values = plot.data[place + 1];
      const at = values.findLastIndex((value) => value !== null);
      return !line.label || line.faint || at < 0 ? [] : [{ text: line.label, colour: line.colour ?? colour(place), y: plot.valToPos(values[at], "y", true) }];
    }).sort((a, b) => a.y - b.y);
    for (let at = 1; at < ends.length; at += 1) ends[at].y = Math.max(ends[at].y, ends[at - 1].y + 14 * scale);
    const floor = plot.bbox.top + plot.bbox.height;
    ends.forEach((end, at) => { end.y = Math.min(end.y, floor - (ends.length - 1 - at) * 14 * scale); });
    const context = plot.ctx;
    context.save();
    context.font = `${12 * scale}px ${ink("--font")}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const end of ends) {
      context.fillStyle = end.colour;
      context.fillText(end.text, plot.bbox.left + plot.bbox.width + 6 * scale, end.y);
    }
    context.restore();
  }

  say(place) {
    if (!this.asked || !this.drawn) return;
    const [rounds, lines] = this.asked;
    const at = place ?? rounds.length - 1;
    const named = lines.filter((line) => line.label && isNumber(line.values[at]));
    const near = named.filter((line) => !line.faint || line.width === 0);
    const parts = (near.length ? near : named).slice(0, 8).map((line) => `${line.label} ${this.said(line, line.values[at])}`);
    this.readout.textContent = rounds.length ? `round ${rounds[at].toLocaleString("en")}: ${parts.join(" · ") || "–"}` : "";
  }

  said(line, value) {
    return (line.format ?? this.format)(value);
  }

  inWords(rounds, lines) {
    const said = lines.filter((line) => line.label).slice(0, 8).map((line) => {
      const known = line.values.filter((value) => value !== null);
      return known.length ? `${line.label} from ${this.said(line, known[0])} to ${this.said(line, known.at(-1))}` : `${line.label}: nothing`;
    });
    const span = rounds.length ? `rounds ${rounds[0]} to ${rounds.at(-1)}` : "no round yet";
    return `${this.title}, ${span}: ${said.join("; ")}`;
  }

  fit() {
    const width = Math.max(160, this.box.clientWidth);
    if (this.drawn && Math.abs(this.drawn.width - width) > 1) this.redraw();
  }

  clear() {
    this.drawn?.destroy();
    this.drawn = null;
    this.shape = "";
  }

  end() {
    this.clear();
    this.observer.disconnect();
    dark.removeEventListener("change", this.recolour);
  }
}

// Bars of equal width as elements: they need no canvas, and a screen reader reads the counts.
export function bars(label, ranges) {
  const most = Math.max(1, ...ranges.map(({ count }) => count));
  return el("ul", { class: "bars", "aria-label": label }, ranges.map(({ text, count }) => el("li", {},
    el("span", { class: "bar-text" }, text), el("meter", { min: 0, max: most, value: count, "aria-label": `${text}: ${count}` }), el("span", { class: "bar-count" }, String(count)))));
}
