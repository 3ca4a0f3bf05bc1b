// Elements and words: every text becomes a text node, so what a stranger wrote stays text.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value") made.value = value;
    else if (name === "css") Object.entries(value).forEach(([property, text]) => made.style.setProperty(property, text));
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// Puts children in place only where they differ, so that focus and selection survive an update that changes nothing.
export function fill(host, ...children) {
  const draft = el("div", {}, ...children);
  if (host.innerHTML !== draft.innerHTML) host.replaceChildren(...draft.childNodes);
}

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function figure3(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return grouped.format(value);
  return size >= 100 ? value.toFixed(1) : size >= 10 ? value.toFixed(2) : value.toFixed(3);
}

export const whole = (value) => (isNumber(value) ? grouped.format(value) : "–");
// Of things that are counted: whole, or a mean of them.
export const counted = (value) => (isNumber(value) && !Number.isInteger(value) && Math.abs(value) < 100 ? value.toFixed(1) : whole(value));
export const percent = (value) => (isNumber(value) ? `${(100 * value).toFixed(value > 0 && value < 0.0995 ? 1 : 0)} %` : "–");
export const signed = (value) => (isNumber(value) ? `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(2)}` : "–");

export function bytes(value) {
  if (!isNumber(value)) return "–";
  let [size, unit] = [value, 0];
  while (size >= 1000 && unit < 4) [size, unit] = [size / 1000, unit + 1];
  return `${unit ? size.toFixed(size < 10 ? 1 : 0) : size} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

export function lasting(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

export const moment = (unix) => (isNumber(unix) && unix > 0 ? new Date(1000 * unix).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "–");

// A moment of the day of another one by its time alone.
export function since(unix, wall) {
  const [at, now] = [new Date(1000 * unix), new Date(1000 * wall)];
  return at.toDateString() === now.toDateString() ? at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : moment(unix);
}

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

export function grid(label, head, rows, numeric = []) {
  const cell = (tag, text, at, extra = {}) => el(tag, { ...extra, class: numeric.includes(at) ? "number" : undefined }, text ?? "–");
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("caption", { class: "hidden" }, label),
      el("thead", {}, el("tr", {}, head.map((text, at) => cell("th", text, at, { scope: "col" })))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((text, at) => (at ? cell("td", text, at) : cell("th", text, at, { scope: "row" }))))))));
}

export function panel(title, note, ...children) {
  return el("section", { class: "panel" }, el("h2", {}, title), note ? el("p", { class: "note" }, note) : null, ...children);
}

export const empty = (...said) => el("p", { class: "empty" }, ...said);

// What stands between backticks as code.
export function inCode(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? el("code", {}, part) : part)) : [text];
}

export const command = (text) => el("code", { class: "command" }, text);

export function choice(label, options, chosen, changed) {
  const made = el("select", { onchange: () => changed(made.value) }, options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "control" }, el("span", {}, label), made);
}
