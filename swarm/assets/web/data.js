// What is known of a run: asked for once, then kept up to date by server-sent events; or frozen in this file.

let frozenFile = null;

export async function unfreeze() {
  const element = document.getElementById("frozen");
  if (!element) return null;
  const packed = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  frozenFile = JSON.parse(await new Response(plain).text());
  return frozenFile;
}

export const isFrozen = () => frozenFile !== null;

// Of this run; a path that begins with / is of the place.
export async function ask(run, path) {
  if (frozenFile) {
    const found = frozenFile.documents[path.split("?columns=")[0]];
    if (found === undefined || run !== frozenFile.experiment) throw new Error("this frozen page does not have it");
    return found;
  }
  const answer = await fetch(path.startsWith("/") ? path : `/api/run/${encodeURIComponent(run)}/${path}`);
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 600));
  return answer.json();
}

function unpacked(text, kind) {
  const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return Array.from(new kind(raw.buffer), (value) => (Number.isNaN(value) ? null : value));
}

export class History {
  constructor(run) {
    this.run = run;
    this.nodes = new Map();
    this.columns = new Set();
    this.version = 0;
    this.mark = {};
    this.leftOut = 0;
    this.aligned = { version: -1 };
  }

  get names() {
    return [...this.nodes.keys()].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  }

  // Columns that are not there yet; what is there stays.
  async load(columns) {
    const missing = columns.filter((name) => !this.columns.has(name));
    if (missing.length) this.take(await ask(this.run, `series?columns=${missing.join(",")}`), missing);
  }

  async reload() {
    const columns = [...this.columns];
    this.nodes.clear();
    this.columns.clear();
    if (columns.length) await this.load(columns);
  }

  take(document_, columns) {
    const first = this.columns.size === 0;
    if (first) [this.mark, this.leftOut] = [document_.mark, document_.left_out];
    for (const [name, told] of Object.entries(document_.nodes)) {
      const rounds = unpacked(told.rounds, Int32Array);
      const values = Object.fromEntries(Object.entries(told.columns).map(([column, text]) => [column, unpacked(text, Float32Array)]));
      if (first) this.nodes.set(name, { model: told.model, role: told.role, rounds, columns: values });
      else this.merge(name, { ...told, rounds, columns: values });
    }
    columns.forEach((name) => this.columns.add(name));
    this.version += 1;
  }

  // Rounds of one node that are new or changed, or further columns of those that are known.
  merge(name, told) {
    const node = this.nodes.get(name) ?? { rounds: [], columns: {} };
    [node.model, node.role] = [told.model, told.role];
    this.nodes.set(name, node);
    for (const column of Object.keys(told.columns)) node.columns[column] ??= node.rounds.map(() => null);
    const places = new Map(node.rounds.map((round, place) => [round, place]));
    told.rounds.forEach((round, at) => {
      let place = places.get(round);
      if (place === undefined) {
        place = node.rounds.length;
        if (place && round < node.rounds[place - 1]) node.unordered = true;
        node.rounds.push(round);
        Object.values(node.columns).forEach((values) => values.push(null));
        places.set(round, place);
      }
      for (const [column, values] of Object.entries(told.columns)) node.columns[column][place] = values[at];
    });
    if (node.unordered) this.sort(node);
  }

  sort(node) {
    const order = node.rounds.map((_, place) => place).sort((a, b) => node.rounds[a] - node.rounds[b]);
    node.rounds = order.map((place) => node.rounds[place]);
    for (const column of Object.keys(node.columns)) node.columns[column] = order.map((place) => node.columns[column][place]);
    node.unordered = false;
  }

  async news(told) {
    for (const [name, of] of Object.entries(told.nodes)) this.merge(name, of);
    if (told.again.length) await this.reload();
    this.version += 1;
  }

  // All rounds, and node -> values by these; null where there is none.
  align() {
    if (this.aligned.version === this.version) return this.aligned;
    const rounds = [...new Set(this.names.flatMap((name) => this.nodes.get(name).rounds))].sort((a, b) => a - b);
    this.aligned = { version: this.version, rounds, places: new Map(rounds.map((round, place) => [round, place])), made: new Map() };
    return this.aligned;
  }

  of(name, column) {
    const { rounds, places, made } = this.align();
    const key = `${name}/${column}`;
    if (!made.has(key)) {
      const node = this.nodes.get(name);
      const values = new Array(rounds.length).fill(null);
      node?.columns[column]?.forEach((value, at) => { values[places.get(node.rounds[at])] = value; });
      made.set(key, values);
    }
    return made.get(key);
  }

  get rounds() {
    return this.align().rounds;
  }

  // Over the nodes, round by round: mean, least, most and sum of those that have a figure.
  over(column, names = this.names) {
    const { rounds, made } = this.align();
    const key = `*${names.join(" ")}/${column}`;
    if (!made.has(key)) {
      const columns = names.map((name) => this.of(name, column));
      const found = { mean: [], least: [], most: [], sum: [], count: [] };
      for (let at = 0; at < rounds.length; at += 1) {
        let [sum, count, least, most] = [0, 0, Infinity, -Infinity];
        for (const values of columns) {
          const value = values[at];
          if (value === null) continue;
          [sum, count, least, most] = [sum + value, count + 1, Math.min(least, value), Math.max(most, value)];
        }
        found.mean.push(count ? sum / count : null);
        found.least.push(count ? least : null);
        found.most.push(count ? most : null);
        found.sum.push(count ? sum : null);
        found.count.push(count);
      }
      made.set(key, found);
    }
    return made.get(key);
  }
}

export function smooth(values, window) {
  const found = [];
  let [sum, count] = [0, 0];
  values.forEach((value, at) => {
    if (value !== null) [sum, count] = [sum + value, count + 1];
    const left = at >= window ? values[at - window] : null;
    if (left !== null) [sum, count] = [sum - left, count - 1];
    found.push(count && value !== null ? sum / count : null);
  });
  return found;
}

export const windowOf = (rounds) => Math.min(100, Math.max(1, Math.floor(rounds / 20)));

export function meanOf(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

export function cumulated(values) {
  let total = 0;
  return values.map((value) => (total += value ?? 0));
}

// Follows a run while the page is seen; a page in the background asks for nothing.
export class Follower {
  constructor(history, told) {
    this.history = history;
    this.told = told;
    this.seen = () => (document.hidden ? this.close("paused: this tab is hidden") : this.open());
    document.addEventListener("visibilitychange", this.seen);
    this.seen();
  }

  open() {
    if (this.source) return;
    const mark = encodeURIComponent(JSON.stringify(this.history.mark));
    this.source = new EventSource(`/api/run/${encodeURIComponent(this.history.run)}/live?mark=${mark}`);
    this.source.onmessage = async (message) => {
      const said = JSON.parse(message.data);
      if (message.lastEventId) this.history.mark = JSON.parse(message.lastEventId);
      if (said.news) await this.history.news(said.news);
      this.told(said);
    };
    this.source.onerror = () => {
      this.told({ lost: this.source?.readyState === EventSource.CLOSED ? "ended: open a new link from swarm web" : "connection lost; trying again" });
      if (this.source?.readyState === EventSource.CLOSED) this.close();
    };
  }

  close(why = "") {
    this.source?.close();
    this.source = null;
    if (why) this.told({ lost: why });
  }

  end() {
    document.removeEventListener("visibilitychange", this.seen);
    this.close();
  }
}
