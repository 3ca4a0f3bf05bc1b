// The views of a run: each has a root, takes in what is new by update(standing, history), and ends.

import { Chart, bars, colour, dash } from "./charts.js";
import { ask, cumulated, isFrozen, meanOf, smooth, windowOf } from "./data.js";
import { bytes, choice, command, counted, el, empty, figure3, fill, grid, inCode, isNumber, lasting, moment, panel, percent, plural, since, whole } from "./text.js";

const PAPER = { "8/0": 561.79, "4/4": 1093.31 };
const PAPER_ROUNDS = 2000 * 8;
const MOST_LABELS = 8;
const MOST_FINDINGS = 5;
const OWN_FINDINGS = ["false claims", "silent"];
const TOOK = ["seconds_round", "bytes_published", "bytes_fetched", "requests", "endpoint_requests"];
const share = (value) => (isNumber(value) ? `${Math.round(100 * value)} %` : "–");

// Of a ratio that is large the fractions mean nothing.
const times = (ratio) => (ratio >= 10 ? `about ${whole(ratio)} times` : `${ratio.toFixed(1)} times`);

// First and last ten rounds, or halves of a shorter run.
function trend(values) {
  const known = values.filter((value) => value !== null);
  const window = Math.min(10, Math.max(1, Math.floor(known.length / 2)));
  return known.length < 2 ? { last: known.at(-1) ?? null } : { first: meanOf(known.slice(0, window)), last: meanOf(known.slice(-window)), window };
}

// A whole over its part, where both are known: reward over format is knowledge, so that their product is the reward.
const over = (whole, part) => (isNumber(whole) && part > 0 ? whole / part : null);

function card(title, value, ...notes) {
  return el("div", { class: "card" }, el("dt", {}, title), el("dd", {}, el("span", { class: "value" }, value), ...notes.filter(Boolean).map((note) => el("span", { class: "note" }, note))));
}

const changed = ({ first, window }, said) => (isNumber(first) ? `${said(first)} in the first ${plural(window, "round")}` : "");

export function nodeTable(standing, run) {
  const rows = standing.nodes.map((node) => [
    el("a", { class: "name", href: `#${run}/nodes/${node.node}` }, node.node), node.role, el("span", { class: node.live ? "state live-node" : "state" }, node.state || (node.live ? "alive" : "–")),
    node.round >= 0 ? whole(node.round) : "–", node.seen || "–", isNumber(node.last_reward) ? figure3(node.last_reward) : "–", isNumber(node.cumulative_reward) ? figure3(node.cumulative_reward) : "–",
    node.external_wanted ? `${node.external_groups}/${node.external_wanted}` : "–", isNumber(node.seconds_per_round) ? lasting(node.seconds_per_round) : "–", isNumber(node.tokens_per_second) ? whole(node.tokens_per_second) : "–", node.model || "–",
  ]);
  return rows.length ? grid("Nodes", ["node", "role", "what it does", "round", "seen", "reward", "sum", "groups of peers", "from round to round", "tokens/s", "model"], rows, [3, 5, 6, 7, 8, 9]) : empty("No node has registered yet. Start some with ", command("swarm up"), " or ", command("swarm join"), ".");
}

// Who says nothing any more, in a run that is not over: all of its nodes, or some of them. Who said goodbye is not missed.
function silences({ finished, nodes, wall }) {
  const seen = nodes.filter((node) => isNumber(node.seen_ago));
  const silent = seen.filter((node) => !node.live && node.status !== "stopped");
  if (finished || !silent.length) return [];
  const last = (of) => since(wall - Math.min(...of.map((node) => node.seen_ago)), wall);
  if (!seen.some((node) => node.live)) {
    const left = seen.length - silent.length;
    const who = left ? `Nobody is alive: ${plural(left, "node has", "nodes have")} left, and ${silent.length > 1 ? "the others have" : "the other has"}` : silent.length > 1 ? `All ${whole(silent.length)} nodes have` : "The only node has";
    return [{ nodes: [], code: "silent", evidence: `${who} been silent since ${last(silent)}; nothing is being done`, remedy: "start them again with the same command: they go on where they stopped. If they run, look whether they still reach the place" }];
  }
  const told = silent.length > 3 ? [silent] : silent.map((node) => [node]);
  return told.map((of) => ({ nodes: of.map(({ node }) => node), code: "silent", evidence: `silent since ${last(of)}`, remedy: "start it again with the same command: it goes on where it stopped. Its last lines in the log may say why it ended" }));
}

// What is wrong: who is silent, who publishes what others find to be false, and hints.
export function findings(standing) {
  const lies = standing.distrusted.filter(({ false_claims: claims }) => claims).map((of) => ({ nodes: [of.peer], code: "false claims", evidence: `others found ${plural(of.false_claims, "of the rewards and answers that it published", "of the rewards and answers that it published")} to be false`, remedy: "nobody trains on them, for every node scores by itself; but its own rewards are in the charts. Ask who runs it, or stop it" }));
  return [...silences(standing), ...lies, ...standing.hints];
}

// Some of them: as they come, but what concerns a node that was named already stands behind what does not.
function foremost(found, most) {
  const named = new Set();
  const first = found.filter(({ nodes }) => !nodes.length || nodes.some((node) => !named.has(node)) && nodes.forEach((node) => named.add(node)) === undefined);
  return [...first, ...found.filter((hint) => !first.includes(hint))].slice(0, most);
}

const linked = (standing, name) => (standing.nodes.some(({ node }) => node === name) ? el("a", { class: "name", href: `#${standing.experiment}/nodes/${encodeURIComponent(name)}` }, name) : name === "*" ? "(others)" : name);
const several = (standing, names) => (names.length ? names.slice(0, 8).flatMap((name, at) => [at ? ", " : "", linked(standing, name)]).concat(names.length > 8 ? ` and ${names.length - 8} more` : []) : "none");

// Of one node, where it is named.
function hintItems(standing, most = Infinity, node = "") {
  const found = findings(standing).filter(({ nodes }) => !node || nodes.includes(node));
  return foremost(found, most).map((hint) => el("li", { class: "hint" }, el("p", {}, hint.nodes.length ? [el("strong", {}, several(standing, hint.nodes)), ": "] : null, inCode(hint.evidence)), el("p", { class: "remedy" }, "What to do: ", inCode(hint.remedy)), el("p", { class: "note" }, OWN_FINDINGS.includes(hint.code) ? hint.code : ["More: ", el("code", {}, `docs/hints.md#${hint.code}`)])));
}

const OF_REWARD = "The mean over the nodes of their mean reward per completion, and the range from the worst node to the best.";
const OF_SUM = "The mean rewards, summed over nodes and rounds.";
const OF_PAPER = " Dashed: as many rounds of as many nodes at the mean pace of the paper's runs (561.79 for 8/0 and 1,093.31 for 4/4 after 2,000 rounds of 8 nodes). Its model and its questions are others: a yardstick, not a rival.";

export class Overview {
  constructor(run, part = "") {
    this.run = run;
    this.said = el("p", { class: "lead" });
    this.cards = el("dl", { class: "cards" });
    this.reward = new Chart("Reward per round", { note: OF_REWARD });
    this.sum = new Chart("Cumulative reward", { note: OF_SUM });
    this.apart = new Chart("Format and knowledge", { top: 1, note: "Format: the share of answers that have a readable <answer>. Knowledge: the reward of an answer that is readable. Their product is the reward." });
    this.spread = el("div");
    this.health = el("div");
    this.nodes = el("div");
    this.took = el("div", { class: "labels" });
    this.root = el("div", { class: "view" }, this.said, this.cards, el("div", { class: "two" }, this.reward.root, this.sum.root, this.apart.root,
      el("section", { class: "chart" }, el("h3", {}, "Rewards of the last rounds"), el("p", { class: "note" }, "Each node's mean reward in each of the last 50 rounds."), this.spread)),
    panel("What stands out", "", this.health), panel("Nodes", "", this.nodes), this.cost = panel("What it took so far", "", this.took));
    this.goal = part === "took" ? this.cost : null;
  }

  // The first charts do not wait for these.
  start(history) {
    history.load(TOOK).then(() => this.latest && this.update(this.latest, history)).catch(() => null);
  }

  update(standing, history) {
    this.latest = standing;
    const { rounds } = history;
    const [reward, tagged] = ["my_reward", "answer_tag_rate"].map((name) => history.over(name));
    const [ofReward, ofTagged] = [reward.mean, tagged.mean].map(trend);
    const given = reward.mean.map((mean, at) => over(mean, tagged.mean[at]));
    const ofGiven = { ...ofReward, first: over(ofReward.first, ofTagged.first), last: over(ofReward.last, ofTagged.last) };
    const total = cumulated(history.over("earned").sum);
    const live = standing.nodes.filter((node) => node.live).length;
    const ratio = ofReward.first > 0 ? `${times(ofReward.last / ofReward.first)} ` : "";
    fill(this.said, rounds.length < 2 ? "No round is done yet. The charts fill as soon as the first ones are." : `In the last ${plural(ofReward.window, "round")} an answer earned ${figure3(ofReward.last)} on average, ${ratio ? `${ratio}what it did in the first` : `against ${figure3(ofReward.first)} in the first`}.`);
    fill(this.cards, card("Reward", figure3(ofReward.last), ofReward.window ? `an answer, last ${plural(ofReward.window, "round")}` : "an answer", changed(ofReward, figure3)), card("Format", percent(ofTagged.last), "of answers have a readable <answer>", changed(ofTagged, percent)), card("Knowledge", figure3(ofGiven.last), "reward of an answer that is readable", changed(ofGiven, figure3)),
      card("Cumulative reward", figure3(total.at(-1)), rounds.length ? `after ${plural(rounds.length, "round")}` : ""),
      card("Pace", isNumber(standing.seconds_per_round) ? lasting(standing.seconds_per_round) : "–", isNumber(standing.seconds_per_round) ? "a round" : standing.finished ? "the run is over" : "nobody is at work", isNumber(standing.seconds_left) && !standing.finished ? `about ${lasting(standing.seconds_left)} left` : ""),
      card("Nodes", `${live} of ${standing.nodes.length}`, standing.finished ? "the run is over" : live ? "alive" : "nobody is alive"));
    fill(this.nodes, nodeTable(standing, this.run));
    const said = hintItems(standing, MOST_FINDINGS);
    fill(this.health, said.length ? el("ul", { class: "plain" }, said) : empty("Nothing. As far as their last rows show, all nodes do something useful."), findings(standing).length > MOST_FINDINGS ? el("p", {}, el("a", { href: `#${this.run}/health` }, `All ${findings(standing).length}`)) : null);
    if (this.drawn === history.version) return;
    this.drawn = history.version;
    const window = windowOf(rounds.length);
    const [mean, least, most] = [reward.mean, reward.least, reward.most].map((values) => smooth(values, window));
    this.reward.note.textContent = OF_REWARD + (window > 1 ? ` All are moving averages over ${window} rounds.` : "");
    this.reward.draw(rounds, [
      { label: "", values: most, colour: "transparent", width: 0, band: 1, fill: "rgba(86,150,200,0.22)", faint: true }, { label: "", values: least, colour: "transparent", width: 0, faint: true },
      { label: "mean", values: mean, colour: colour(0) },
      { label: "worst node", values: least, colour: colour(0), faint: true, width: 0 }, { label: "best node", values: most, colour: colour(0), faint: true, width: 0 }]);
    const done = cumulated(history.over("my_reward").count);
    this.sum.note.textContent = OF_SUM + (standing.embedded ? "" : OF_PAPER);
    this.sum.draw(rounds, [{ label: "this run", values: total, colour: colour(0) }, ...Object.entries(standing.embedded ? {} : PAPER).map(([name, sum], at) => ({ label: `paper ${name}`, values: done.map((count) => (count * sum) / PAPER_ROUNDS), colour: colour(at ? 2 : 1), dash: [7, 4], width: 1.5 }))]);
    this.apart.draw(rounds, [{ label: "format", values: smooth(tagged.mean, window), colour: colour(0), format: percent }, { label: "knowledge", values: smooth(given, window), colour: colour(1) }]);
    this.drawSpread(history);
    this.drawTook(standing, history);
  }

  drawTook(standing, history) {
    const sum = (name) => cumulated(history.over(name).sum).at(-1);
    const tokens = (name) => standing.nodes.reduce((total, node) => total + node[name], 0);
    const rows = [["elapsed, from the first sign of the run to the last row", lasting(standing.elapsed)], ["time of all nodes in their rounds, added up", lasting(sum("seconds_round"))], ["tokens generated", whole(tokens("tokens_generated"))], ["tokens trained on", whole(tokens("tokens_trained"))], ["published", bytes(sum("bytes_published"))], ["fetched from peers", bytes(sum("bytes_fetched"))]];
    if (sum("requests")) rows.push(["requests to the bucket", whole(sum("requests"))]);
    if (sum("endpoint_requests")) rows.push(["requests to the endpoint", whole(sum("endpoint_requests"))]);
    fill(this.took, grid("What it took so far", ["of what", "how much"], rows, [1]));
  }

  drawSpread(history) {
    const rewards = history.names.flatMap((name) => history.of(name, "my_reward").slice(-50)).filter((value) => value !== null);
    const top = Math.max(0.1, Math.ceil(Math.max(0, ...rewards) * 10) / 10);
    const counts = new Array(10).fill(0);
    rewards.forEach((reward) => { counts[Math.min(9, Math.floor((10 * reward) / top))] += 1; });
    fill(this.spread, rewards.length ? bars("Histogram of rewards", counts.map((count, at) => ({ count, text: `${((at * top) / 10).toFixed(2)} to ${(((at + 1) * top) / 10).toFixed(2)}` }))) : empty("Nothing to draw yet."));
  }

  end() {
    [this.reward, this.sum, this.apart].forEach((chart) => chart.end());
  }
}

const METRICS = [
  ["my_reward", "Reward", "Mean reward per completion.", figure3],
  ["answer_tag_rate", "Format", "Share of answers that have a readable <answer>.", percent],
  ["reward_given_tagged", "Knowledge", "Mean reward of an answer that is readable.", figure3],
  ["finished_rate", "Finished answers", "Share that the model ended itself, not cut at the length limit.", share],
  ["zero_advantage_local", "Groups without a signal", "Share of own groups whose rewards are all equal: they teach nothing.", share],
  ["executor_busy", "Computing", "Share of the time in which the node was computing; the rest it waited.", share],
  ["seconds_round", "Length of a round", "Seconds.", lasting],
  ["staleness", "Staleness", "Mean age of the peers' groups trained on, in rounds.", figure3],
  ["bytes_published", "Bytes published", "Of the node's own rollout files, per round.", bytes],
  ["bytes_fetched", "Bytes fetched", "Of peers' rollout files, per round.", bytes],
  ["requests", "Requests to the bucket", "Writes, listings and reads, per round.", whole],
  ["endpoint_requests", "Requests to the endpoint", "Per round.", whole],
  ["memory_share", "Memory of the device", "Share that is in use, by whomever.", share],
];
const GROUPS = ["local_groups", "external_wanted", "external_groups"];

export class Nodes {
  constructor(run, node = "") {
    this.run = run;
    this.node = node;
    this.groups = new Chart("Own and external groups", { format: counted, note: "I: own groups of a round. J: peers' groups wanted; below it those that were found. A rule of adaptive I/J moves both." });
    this.charts = METRICS.map(([, title, note, format]) => new Chart(title, { note, format }));
    this.control = el("div", { class: "controls" });
    this.window = el("p", { class: "note" });
    this.tasks = el("div", { class: "three" });
    this.about = el("div");
    this.root = el("div", { class: "view" }, this.control, this.window, this.about, el("div", { class: "two" }, this.charts.slice(0, 3).map((chart) => chart.root), this.groups.root),
      panel("Tasks", "Format (share of answers that are readable) and knowledge (reward of these), over stretches of rounds.", this.tasks), el("div", { class: "two apart" }, this.charts.slice(3).map((chart) => chart.root)));
    this.taskCharts = new Map();
    this.tasksAt = 0;
  }

  async start(history) {
    await history.load([...METRICS.map(([name]) => name), ...GROUPS]);
  }

  update(standing, history) {
    const { rounds, names } = history;
    fill(this.control, choice("Node", [["", "all nodes"], ...names.map((name) => [name, name])], this.node, (name) => { location.hash = name ? `${this.run}/nodes/${name}` : `${this.run}/nodes`; }));
    const of = standing.nodes.find(({ node }) => node === this.node);
    const held = this.node ? hintItems(standing, Infinity, this.node) : [];
    fill(this.about, of ? el("p", { class: "lead" }, `${of.node} ${of.state || ""}. `, of.shortage ? `In its last round it had ${of.shortage}. ` : "", el("a", { href: `#${this.run}/answers///${of.node}` }, "Its answers")) : null, held.length ? el("ul", { class: "plain held" }, held) : null);
    if (this.drawn === history.version) return;
    this.drawn = history.version;
    const window = windowOf(rounds.length);
    this.window.textContent = window > 1 ? `Lines are moving averages over ${window} rounds.` : "";
    METRICS.forEach(([name], at) => {
      const lines = this.lines(history, name, window);
      const known = lines.some((line) => line.values.some((value) => value !== null));
      this.charts[at].root.hidden = !known && ["requests", "endpoint_requests", "memory_share"].includes(name);
      if (!this.charts[at].root.hidden) this.charts[at].draw(rounds, lines);
    });
    const chosen = this.node && names.includes(this.node) ? [this.node] : names;
    const [own, wanted, found] = GROUPS.map((name) => smooth(history.over(name, chosen).mean, window));
    this.groups.draw(rounds, [{ label: "I own", values: own, colour: colour(0) }, { label: "J wanted", values: wanted, colour: colour(1), dash: [7, 4] }, { label: "J found", values: found, colour: colour(2) }]);
    this.drawTasks(history);
  }

  // One line for each node; where one is chosen, the others stand back.
  lines(history, column, window) {
    const { names } = history;
    return names.map((name, at) => {
      const faint = this.node ? name !== this.node : names.length > MOST_LABELS;
      return { label: name, values: smooth(history.of(name, column), window), colour: colour(at), dash: dash(at), faint };
    }).sort((a, b) => Number(b.faint) - Number(a.faint));
  }

  async drawTasks(history) {
    if (this.tasksAt === history.rounds.length || (this.tasksAt && Date.now() - this.tasksWhen < 5000)) return;
    [this.tasksAt, this.tasksWhen] = [history.rounds.length, Date.now()];
    const told = await ask(this.run, this.node ? `tasks?node=${encodeURIComponent(this.node)}` : "tasks").catch(() => null);
    if (!told) return;
    for (const [task, curve] of Object.entries(told.tasks)) {
      if (!this.taskCharts.has(task)) {
        this.taskCharts.set(task, new Chart(task, { top: 1, height: 150, small: true }));
        this.tasks.append(this.taskCharts.get(task).root);
      }
      this.taskCharts.get(task).draw(curve.rounds, [{ label: "format", values: curve.tagged, colour: colour(0), format: percent }, { label: "knows", values: curve.given_tagged, colour: colour(1) }]);
    }
    if (!this.taskCharts.size) fill(this.tasks, empty("No row names a task yet."));
  }

  end() {
    [...this.charts, this.groups, ...this.taskCharts.values()].forEach((chart) => chart.end());
  }
}

export class Sharing {
  constructor(run) {
    this.run = run;
    this.which = "counts";
    this.table = el("div");
    this.notes = el("p", { class: "note" });
    this.said = el("p", { class: "lead" });
    this.controls = el("div", { class: "controls" });
    this.root = el("div", { class: "view" }, panel("Who learns from whom", "Each row is a node that trained, each column the node that wrote the groups. The stronger the colour, the more groups; the most of each row are in bold.", this.said, this.controls, this.table, this.notes));
  }

  async update({ distrusted }, history) {
    this.distrusted = distrusted;
    if (this.seen === history.version) return;
    this.seen = history.version;
    this.told = await ask(this.run, "matrix").catch(() => null);
    this.draw();
  }

  draw() {
    if (!this.told) return fill(this.table, empty("It cannot be read now."));
    const { origins, adopters, left_out: leftOut } = this.told;
    const counts = this.told[this.which];
    fill(this.controls, choice("Groups of", [["counts", "the whole run"], ["last", "each node's last round"]], this.which, (which) => { this.which = which; this.draw(); }));
    const some = counts.flat().filter((count) => count > 0);
    const [least, most] = [Math.min(...some), Math.max(...some)];
    const heat = (count) => (!count ? 0 : most > least ? 0.15 + (0.85 * (count - least)) / (most - least) : 0.6);
    const cell = (count, row) => el("span", { class: count && count === Math.max(...row) ? "heat most" : "heat", css: { "--heat": heat(count).toFixed(3) } }, whole(count));
    fill(this.said, some.length ? this.inWords(origins, adopters, counts, most) : null);
    const rows = adopters.map((adopter, at) => [`${adopter}`, ...counts[at].map((count, of) => (origins[of] === adopter && !count ? "·" : cell(count, counts[at]))), whole(counts[at].reduce((sum, count) => sum + count, 0))]);
    const given = origins.map((_, of) => whole(counts.reduce((sum, row) => sum + row[of], 0)));
    fill(this.table, rows.length && origins.length ? grid("Groups of each node that each other one trained on", ["trained ↓ wrote →", ...origins, "all"], [...rows, ["all", ...given, whole(counts.flat().reduce((sum, count) => sum + count, 0))]], [...origins.map((_, of) => of + 1), origins.length + 1]) : empty("Nobody has trained on a peer's group yet."));
    this.notes.textContent = leftOut ? `${whole(leftOut)} groups of nodes that are not shown.` : "";
    return null;
  }

  inWords(origins, adopters, counts, most) {
    const at = counts.findIndex((row) => row.includes(most));
    const ignored = origins.filter((_, of) => counts.every((row) => !row[of])).map((name) => {
      const of = this.distrusted.find(({ peer }) => peer === name);
      return of?.false_claims ? `${name} (not believed: others found its claims to be false)` : of ? `${name} (others refused what it published)` : name;
    });
    const listed = ignored.length > 4 ? `${ignored.slice(0, 4).join(", ")} and ${ignored.length - 4} more` : ignored.join(", ");
    return `${adopters[at]} learned most from one other: ${plural(most, "group")} of ${origins[counts[at].indexOf(most)]}.${ignored.length ? ` Nobody trained on groups of ${listed}.` : ""}`;
  }

  end() {}
}

export const AS_CLAIMED = "The headline and the charts take the rewards of every node as it claims them, those of nodes that are not believed included.";

export class Health {
  constructor(run) {
    this.run = run;
    [this.hints, this.trust, this.slow, this.short, this.odd, this.nodes, this.more] = Array.from({ length: 7 }, () => el("div"));
    this.root = el("div", { class: "view" }, panel("What is wrong, and what to do", "What makes a node useless although nothing fails, by rules over its last rows.", this.hints), panel("Who is not believed", "Peers whose files others refused, or who published rewards and answers that others found to be otherwise.", this.trust),
      panel("Who is slow", "Whose own work of the last 10 rounds took twice as long as the median node's, or longer. A round waits for the slowest.", this.slow), panel("Who got fewer groups than it wanted", "In its last round.", this.short), panel("Rows that are odd", "Left out or changed when they were read.", this.odd), panel("Nodes", "", this.nodes), panel("Look further", "", this.more));
  }

  async start(history) {
    await history.load(["seconds_round"]);
  }

  update(standing, history) {
    const hints = hintItems(standing);
    fill(this.hints, hints.length ? el("ul", { class: "plain" }, hints) : empty("Nothing. As far as their last rows show, all nodes do something useful."), standing.problem ? el("p", { class: "hint" }, `The clock cannot be read: ${standing.problem}`) : null);
    fill(this.trust, standing.distrusted.length ? grid("Who is not believed", ["node", "claims that were false", "found by", "files and groups refused, and why", "refused by", "no more read by"], standing.distrusted.map((of) => [linked(standing, of.peer), whole(of.false_claims), el("span", {}, several(standing, of.false_claims_by)), told(of.refused), el("span", {}, several(standing, of.refused_by)), el("span", {}, several(standing, of.quarantined_by))]), [1]) : empty("Nobody refused anybody."), standing.distrusted.some((of) => of.false_claims) ? el("p", { class: "note" }, AS_CLAIMED) : null);
    const paces = history.names.map((name) => ({ name, takes: meanOf(history.of(name, "seconds_round").slice(-10)) })).filter(({ takes }) => isNumber(takes)).sort((a, b) => a.takes - b.takes);
    const usual = paces[Math.floor((paces.length - 1) / 2)]?.takes;
    const slow = paces.filter(({ takes }) => paces.length > 1 && takes >= 2 * usual);
    fill(this.slow, slow.length ? grid("Slow nodes", ["node", "its own work takes", "the median node's", "times as long"], slow.map(({ name, takes }) => [linked(standing, name), lasting(takes), lasting(usual), (takes / usual).toFixed(1)]), [1, 2, 3]) : empty("Nobody."));
    const short = standing.nodes.filter((node) => node.shortage);
    fill(this.short, short.length ? grid("Shortages", ["node", "why"], short.map((node) => [linked(standing, node.node), node.shortage])) : empty("Everybody had what it wanted."));
    const odd = standing.nodes.filter(({ out_of_range: of }) => of.left_out || of.clamped || of.cut);
    fill(this.odd, odd.length ? grid("Odd rows", ["node", "left out", "changed", "cut", "for example"], odd.map(({ node, out_of_range: of }) => [linked(standing, node), whole(of.left_out), whole(of.clamped), whole(of.cut), of.why_left_out[0] ?? of.why_clamped[0] ?? of.why_cut[0] ?? "–"]), [1, 2, 3]) : empty("None."),
      Object.entries(standing.not_held).map(([node, count]) => el("p", { class: "note" }, `${node}: the figures of ${plural(count, "row")} are not drawn: the page holds no more, or the run has no such rounds.`)));
    fill(this.nodes, nodeTable(standing, this.run));
    fill(this.more, el("p", {}, "The place itself (speed, renames, clocks, free space, events): ", command(`swarm doctor --path ${standing.path} --experiment ${standing.experiment}`)));
  }

  end() {}
}

function told(value) {
  if (Array.isArray(value)) return value.slice(0, 8).map(told).join(", ") || "none";
  if (value && typeof value === "object") return Object.entries(value).slice(0, 8).map(([name, of]) => `${name} ${told(of)}`).join(", ") || "none";
  return String(value);
}

const LEVELS = ["debug", "info", "warning", "error", "critical"];
const MOST_LINES = 1500;

export class Journal {
  constructor(run) {
    this.run = run;
    this.asked = { level: "info", node: "", event: "*" };
    this.text = "";
    this.events = [];
    this.list = el("ol", { class: "journal", tabindex: "0", "aria-label": "Events" });
    this.state = el("p", { class: "note", role: "status" });
    this.nodes = el("span");
    const typed = (label, name, hint, changed) => el("label", { class: "control" }, el("span", {}, label), el("input", { type: "search", name, placeholder: hint, oninput: (event) => changed(event.target.value) }));
    this.root = el("div", { class: "view" }, el("div", { class: "controls" }, choice("Level from", LEVELS.map((level) => [level, level]), "info", (level) => this.again({ level })), this.nodes,
      typed("Event", "event", "round.*", (event) => { clearTimeout(this.later); this.later = setTimeout(() => this.again({ event: event || "*" }), 300); }), typed("Contains", "contains", "any words", (text) => { this.text = text.toLowerCase(); this.draw(); })), this.state, this.list);
  }

  start() {
    this.again({});
  }

  update(_, history) {
    const names = ["", ...history.names];
    if (names.join() !== this.names) {
      this.names = names.join();
      fill(this.nodes, choice("Node", names.map((name) => [name, name || "all nodes"]), this.asked.node, (node) => this.again({ node })));
    }
  }

  async again(asked) {
    this.asked = { ...this.asked, ...asked };
    this.events = [];
    this.source?.close();
    if (isFrozen()) {
      const pattern = new RegExp(`^${this.asked.event.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`);
      const kept = await ask(this.run, "journal");
      this.take(kept.events.filter(({ level, node, event }) => LEVELS.indexOf(level) >= LEVELS.indexOf(this.asked.level) && (!this.asked.node || node === this.asked.node) && pattern.test(event)), kept.whole);
      return;
    }
    const query = new URLSearchParams({ level: this.asked.level, event: this.asked.event });
    if (this.asked.node) query.append("node", this.asked.node);
    this.source = new EventSource(`/api/run/${encodeURIComponent(this.run)}/journal?${query}`);
    this.source.onmessage = (message) => {
      const said = JSON.parse(message.data);
      if (said.first) this.events = [];
      if (said.problem) this.state.textContent = said.problem;
      else this.take(said.events, said.first ? said.whole : this.whole);
    };
    this.source.onerror = () => { this.state.textContent = "The connection was lost; trying again."; };
  }

  take(events, whole = this.whole) {
    this.whole = whole && this.events.length + events.length <= MOST_LINES;
    this.events = [...this.events, ...events].slice(-MOST_LINES);
    this.draw();
  }

  draw() {
    const shown = this.events.filter((event) => !this.text || `${event.node} ${event.event} ${event.words} ${event.details}`.toLowerCase().includes(this.text));
    const follows = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    this.list.replaceChildren(...shown.map((event) => el("li", { class: event.level }, el("time", {}, clock(event.time)), el("span", { class: "who" }, event.node), el("span", { class: "level" }, event.level), el("span", { class: "what" }, event.event), el("span", { class: "words" }, event.words), event.details ? el("details", {}, el("summary", {}, "traceback"), el("pre", {}, event.details)) : null)));
    if (follows) this.list.scrollTop = this.list.scrollHeight;
    const held = this.events.length;
    const from = this.whole ? `all ${plural(held, "event")}` : `the last ${plural(held, "event")} that are shown here (earlier ones: swarm logs)`;
    const said = shown.length < held ? `${whole(shown.length)} of ${from}` : `${from[0].toUpperCase()}${from.slice(1)}`;
    this.state.textContent = shown.length ? `${said}${isFrozen() ? "" : "; new ones come below"}.` : "No event matches yet.";
  }

  end() {
    this.source?.close();
    clearTimeout(this.later);
  }
}

function clock(unix) {
  const at = new Date(1000 * unix);
  return Number.isNaN(at.getTime()) || !unix ? "--:--:--" : `${at.toLocaleDateString("en-CA")} ${at.toLocaleTimeString("en-GB")}`;
}

export class Experiments {
  constructor(run) {
    this.run = run;
    this.chosen = new Set([run]);
    this.chart = new Chart("Mean reward per round", { note: "Moving averages of the experiments that are ticked below, at most six." });
    [this.table, this.studies, this.state] = [el("div"), el("div"), el("p", { class: "note", role: "status" })];
    this.root = el("div", { class: "view" }, this.chart.root, this.state, panel("Experiments of this place", "", this.table), panel("Studies", "", this.studies));
    this.curves = new Map();
  }

  async start(history, History) {
    this.History = History;
    try {
      this.told = await ask(this.run, "/api/place");
    } catch (error) {
      fill(this.table, empty(error.message));
      return;
    }
    this.draw();
    await this.compare();
  }

  update() {}

  draw() {
    const tick = (name) => el("input", { type: "checkbox", "aria-label": `compare ${name}`, checked: this.chosen.has(name), disabled: isFrozen(), onchange: (event) => this.choose(name, event.target) });
    const rows = this.told.experiments.map((of) => [isFrozen() ? of.name : el("a", { href: `#${of.name}/overview` }, of.name), of.problem ? "" : tick(of.name), of.problem ?? `${whole(of.rounds_done)} of ${of.max_rounds ? whole(of.max_rounds) : "?"}`, of.finished ? "yes" : "no", whole(of.workers), figure3(of.cumulative), moment(of.seen), of.made_by || "swarm"]);
    fill(this.table, rows.length ? grid("Experiments", ["experiment", "compare", "rounds", "finished", "workers", "cumulative reward", "last sign of life", "made by"], rows, [4, 5]) : empty("There is none."));
    const studies = this.told.studies.map((of) => el("li", {}, el("h3", {}, of.name), of.problem ? el("p", {}, of.problem) : el("div", {}, el("p", {}, of.title), grid(`Configurations of ${of.name}`, ["configuration", "runs"], of.configurations.map((one) => [one.name, el("span", {}, one.runs.flatMap((name) => [isFrozen() ? name : el("a", { href: `#${name}/overview` }, name), " "]))])), el("p", {}, "What it shows: ", command(`swarm study report ${of.name}`)))));
    fill(this.studies, studies.length ? el("ul", { class: "plain" }, studies) : empty("There is none. ", command("swarm study run"), " compares configurations over several seeds."));
  }

  choose(name, box) {
    if (box.checked && this.chosen.size >= 6) box.checked = false;
    else if (box.checked) this.chosen.add(name);
    else this.chosen.delete(name);
    this.compare();
  }

  async compare() {
    this.state.textContent = "Reading…";
    for (const name of this.chosen) {
      if (this.curves.has(name)) continue;
      try {
        const history = new this.History(name);
        await history.load(["my_reward"]);
        this.curves.set(name, { rounds: history.rounds, values: smooth(history.over("my_reward").mean, windowOf(history.rounds.length)) });
      } catch (error) {
        this.state.textContent = `${name}: ${error.message}`;
      }
    }
    const shown = [...this.chosen].filter((name) => this.curves.has(name));
    const rounds = [...new Set(shown.flatMap((name) => this.curves.get(name).rounds))].sort((a, b) => a - b);
    this.chart.draw(rounds, shown.map((name, at) => {
      const found = new Map(this.curves.get(name).rounds.map((round, place) => [round, this.curves.get(name).values[place]]));
      return { label: name, values: rounds.map((round) => found.get(round) ?? null), colour: colour(at), dash: dash(at) };
    }));
    this.state.textContent = "";
  }

  end() {
    this.chart.end();
  }
}

// The settings that everybody asks for first, by what they are called in the paper and in the settings.
const FOREMOST = [["learning rate (learning_rate)", "learning_rate"], ["own groups per round, I (local_groups)", "local_groups"], ["peers' groups per round, J (external_groups)", "external_groups"], ["answers per question, G (generations)", "generations"], ["rounds (max_rounds)", "max_rounds"], ["tasks (tasks)", "tasks"]];

const UNSET = { tasks: "none named: all tasks of the settings file, or else those of the profile", learning_rate: "none named: what suits the model" };

// Values of several nodes; where they differ, of how many nodes each is.
function together(values) {
  const counts = new Map();
  values.forEach((value) => counts.set(value, (counts.get(value) ?? 0) + 1));
  return [...counts].map(([value, count]) => (counts.size > 1 ? `${value} (${plural(count, "node")})` : value)).join(", ");
}

function ofRun(standing, experiment, starts) {
  const workers = starts.filter(({ role }) => role === "worker");
  const known = { ...experiment?.identity, ...(standing.max_rounds ? { max_rounds: whole(standing.max_rounds) } : {}) };
  const noted = (name) => together(workers.flatMap(({ foremost }) => foremost[name] ?? []));
  const unset = (name) => (workers.length ? UNSET[name] : null) ?? "not recorded";
  const rows = FOREMOST.map(([title, name]) => [title, (name === "max_rounds" ? known[name] : "") || noted(name) || known[name] || unset(name)]);
  return grid("Settings in short", ["what", "value"], [["model", together(standing.nodes.flatMap(({ model }) => model || [])) || "not recorded"], ...rows]);
}

export class Settings {
  constructor(run) {
    this.run = run;
    this.root = el("div", { class: "view" }, el("p", { class: "note" }, "Reading…"));
  }

  async start(history, _, standing) {
    try {
      const { experiment, starts } = await ask(this.run, "settings");
      const pairs = (label, of) => grid(label, ["name", "value"], Object.entries(of).map(([name, value]) => [name, Array.isArray(value) ? `${value[0]}  (${value[1]})` : told(value)]));
      this.root.replaceChildren(panel("In short", "", el("div", { class: "labels" }, ofRun(standing, experiment, starts))), panel("What makes this experiment what it is", experiment ? `Written ${moment(experiment.created_at)}.` : "", el("p", {}, el("a", { href: `#${this.run}/overview/took` }, "What it took so far")), experiment ? pairs("Settings of the experiment", experiment.identity) : empty("There is no experiment.json that can be read.")),
        panel("What each node was started with", "Its last start: settings that are not at their defaults, and where they come from.", ...(starts.length ? starts.map((start) => el("details", {}, el("summary", {}, `${start.node_id} · ${start.role} · ${moment(start.timestamp)}`), start.command ? el("p", {}, command(start.command)) : null, pairs(`Settings of ${start.node_id}`, start.settings), pairs(`Versions of ${start.node_id}`, { ...start.versions, machine: start.machine, models: start.models }))) : [empty("No node has noted a start.")])));
    } catch (error) {
      this.root.replaceChildren(empty(error.message));
    }
  }

  update() {}

  end() {}
}
