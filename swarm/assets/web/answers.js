// The rollout browser: one node's groups of one stage, completions side by side, and what became of them.

import { ask, isFrozen } from "./data.js";
import { AS_CLAIMED } from "./views.js";
import { choice, el, empty, figure3, fill, grid, isNumber, plural, signed, whole } from "./text.js";

// The last round done, and the last one of which there may be answers: the open one, if somebody has published in it.
const done = (standing) => Math.max(0, (standing.rounds_done || 1) - 1);
const newest = (standing) => (standing.rollouts && !standing.finished ? Math.max(done(standing), standing.round ?? 0) : done(standing));

// Over how many rounds an adopter was looked at since: ten, where they have been done.
function sinceThen(least, most) {
  if (least >= 10) return "in the 10 after";
  return most ? `in the ${least < most ? `${least} to ` : ""}${most === 1 ? "round" : `${most} rounds`} since` : "since: no round yet";
}

export class Answers {
  constructor(run, round = "", stage = "", node = "") {
    this.run = run;
    this.wanted = { round: round === "" ? null : Number(round), stage, node };
    this.filters = { task: "", signal: false, text: "" };
    this.controls = el("div", { class: "controls" });
    this.filterBox = el("div", { class: "controls" });
    this.state = el("p", { class: "note", role: "status" });
    this.doubt = el("div");
    this.list = el("div", { class: "groups" });
    this.root = el("div", { class: "view" }, this.controls, this.filterBox, this.state, this.doubt, this.list);
  }

  async start(history, _, standing) {
    this.last = newest(standing);
    this.distrusted = standing.distrusted;
    if (isFrozen()) this.sampled = await ask(this.run, "sampled");
    await this.show(this.wanted.round ?? (this.sampled ? this.sampled.at(-1) : done(standing)));
  }

  update(standing) {
    this.distrusted = standing.distrusted;
    const last = newest(standing);
    if (last === this.last) return;
    this.last = last;
    if (this.round !== undefined) this.drawControls();
  }

  async show(round) {
    if (!Number.isFinite(round)) return;
    this.round = this.sampled ? this.sampled.reduce((best, one) => (Math.abs(one - round) < Math.abs(best - round) ? one : best), this.sampled[0] ?? 0) : Math.max(0, Math.round(round));
    this.state.textContent = "Reading…";
    try {
      ({ stages: this.stages, oldest: this.oldest } = await ask(this.run, `stages/${this.round}`));
    } catch (error) {
      this.stages = {};
      this.state.textContent = error.message;
    }
    this.stage = Object.hasOwn(this.stages, this.wanted.stage ?? "") ? this.wanted.stage : Object.keys(this.stages).at(-1) ?? "0";
    const nodes = this.stages[this.stage] ?? [];
    this.node = nodes.includes(this.wanted.node) ? this.wanted.node : nodes[0];
    this.missed = nodes.length && this.wanted.node && this.node !== this.wanted.node ? `${this.wanted.node} has published nothing that is kept in this round. ` : "";
    this.drawControls();
    await this.read();
  }

  // Who was asked for stays so where there is nothing of it.
  go({ round = this.round, stage = this.stage, node = this.wanted.node || this.node }) {
    this.wanted = { round, stage, node };
    history.replaceState(null, "", `#${this.run}/answers/${round}/${stage}/${node ?? ""}`);
    return this.show(round);
  }

  drawControls() {
    const step = (by) => (this.sampled ? this.sampled[this.sampled.indexOf(this.round) + by] : this.round + by);
    const button = (text, name, by) => el("button", { type: "button", "aria-label": name, disabled: step(by) === undefined || step(by) < (this.sampled ? 0 : this.oldest ?? 0) || (!this.sampled && step(by) > this.last), onclick: () => this.go({ round: step(by) }) }, text);
    const input = el("input", { type: "number", min: this.oldest ?? 0, max: this.last, value: this.round, name: "round", onchange: (event) => this.go({ round: Number(event.target.value) }) });
    const round = this.sampled ? choice("Round", this.sampled.map((one) => [String(one), whole(one)]), String(this.round), (one) => this.go({ round: Number(one) })) : el("label", { class: "control" }, el("span", {}, isNumber(this.oldest) ? `Round (${this.oldest} to ${this.last} are kept)` : `Round (to ${this.last})`), input);
    const stages = Object.keys(this.stages ?? {});
    this.controls.replaceChildren(...[button("‹", "Round before", -1), round, button("›", "Round after", 1),
      stages.length > 1 ? choice("Stage", stages.map((one) => [one, one]), this.stage, (stage) => this.go({ stage })) : null,
      choice("Published by", (this.stages?.[this.stage] ?? [this.wanted.node].filter(Boolean)).map((one) => [one, one]), this.node ?? this.wanted.node, (node) => this.go({ node }))].filter(Boolean));
  }

  gone() {
    const oldest = `#${this.run}/answers/${this.oldest}/0/${this.wanted.node}`;
    return empty(`Answers before round ${this.oldest} were cleaned up. `, el("a", { href: oldest }, "The oldest that are kept"));
  }

  async read() {
    this.told = null;
    if (!this.node) {
      fill(this.list, this.round < (this.oldest ?? 0) ? this.gone() : empty("Nobody has published anything in this round, or it was cleaned up."));
      this.filterBox.replaceChildren();
      fill(this.doubt);
      this.state.textContent = "";
      return;
    }
    const asked = `${this.round}/${this.stage}/${this.node}`;
    this.reading = asked;
    try {
      const found = await ask(this.run, `answers/${asked.split("/").map(encodeURIComponent).join("/")}`);
      if (this.reading !== asked) return;
      this.told = found;
    } catch (error) {
      if (this.reading === asked) fill(this.list, empty(error.message));
      this.state.textContent = "";
      return;
    }
    const tasks = [...new Set(this.told.groups.map((group) => group.task))].sort();
    if (!tasks.includes(this.filters.task)) this.filters.task = "";
    this.filterBox.replaceChildren(choice("Task", [["", "all tasks"], ...tasks.map((task) => [task, task])], this.filters.task, (task) => this.filter({ task })),
      el("label", { class: "control check" }, el("input", { type: "checkbox", name: "signal", checked: this.filters.signal, onchange: (event) => this.filter({ signal: event.target.checked }) }), el("span", {}, "only groups with a signal")),
      el("label", { class: "control" }, el("span", {}, "Contains"), el("input", { type: "search", name: "text", value: this.filters.text, oninput: (event) => this.filter({ text: event.target.value.toLowerCase() }) })));
    this.draw();
  }

  filter(changed) {
    Object.assign(this.filters, changed);
    this.draw();
  }

  draw() {
    if (!this.told) return;
    const { task, signal, text } = this.filters;
    const shown = this.told.groups.filter((group) => (!task || group.task === task) && (!signal || group.completions.some(({ advantage }) => advantage))
      && (!text || [group.question, group.answer ?? "", ...group.completions.map((one) => one.text)].some((words) => words.toLowerCase().includes(text))));
    this.state.textContent = `${this.missed}${this.told.node}${this.told.model ? `, ${this.told.model}` : ""}, after ${plural(this.told.rounds_trained, "update")}: ${plural(shown.length, "group")}${shown.length < this.told.groups.length ? ` of ${this.told.groups.length}` : ""}.`;
    const of = this.doubted();
    fill(this.doubt, of ? el("p", { class: "hint" }, `Others found ${plural(of.false_claims, "claim")} of this node to be false: its rewards below may be, too. ${AS_CLAIMED} `, el("a", { href: `#${this.run}/health` }, "Who says so")) : null);
    fill(this.list, shown.length ? shown.map((group) => this.group(group)) : empty("No group matches."));
  }

  // What others hold against claims of who published this, if they do.
  doubted() {
    return this.distrusted.find(({ peer, false_claims: claims }) => peer === this.told.node && claims);
  }

  group(group) {
    const equal = group.completions.every(({ advantage }) => !advantage);
    return el("article", { class: "group" }, el("header", {}, el("h3", {}, group.task || "unknown task"), el("p", { class: "note" }, `group ${group.slot}, mean reward ${figure3(group.mean)}${this.doubted() ? " as it claims" : ""}${equal ? "; all rewards are equal: it teaches nothing" : ""}`)),
      el("details", { class: "question", open: true }, el("summary", {}, "Question"), el("pre", {}, group.question)), group.answer === null ? null : el("p", { class: "truth" }, "Right answer: ", el("code", {}, group.answer)),
      group.shows.length ? el("details", {}, el("summary", {}, `Shows answers of ${plural(group.shows.length, "earlier group")}`), el("ul", {}, group.shows.map((name) => el("li", {}, el("code", {}, name))))) : null,
      el("div", { class: "completions", tabindex: "0", role: "region", "aria-label": `Completions of group ${group.slot}` }, group.completions.map((one, at) => this.completion(one, at))),
      group.left_out ? el("p", { class: "note" }, `${whole(group.left_out)} more completions are not shown.`) : null, this.adopters(group));
  }

  completion(one, at) {
    const doubted = this.doubted();
    const good = isNumber(one.reward) && one.reward > 0 && !doubted;
    const earned = doubted ? `claims ${figure3(one.reward)}, not believed` : `reward ${figure3(one.reward)}`;
    return el("section", { class: good ? "completion good" : "completion" }, el("h4", {}, `Answer ${at + 1}`),
      el("p", { class: "score" }, el("span", { class: good ? "reward good" : "reward" }, earned), el("span", {}, `advantage ${signed(one.advantage)}`), one.finished ? null : el("span", { class: "cut" }, "cut at the length limit")),
      one.turns.map((turn, number) => el("div", { class: "turn" }, el("h5", {}, `Turn ${number + 1}`), el("pre", {}, turn.text), el("h5", {}, "The task replied"), el("pre", { class: "reply" }, turn.reply))), el("pre", {}, one.text || "(nothing)"));
  }

  adopters(group) {
    if (!group.adopters.length) return el("p", { class: "note" }, "No peer has trained on this group so far.");
    const next = (of) => (isFrozen() || of.round >= this.last ? of.node : el("a", { href: `#${this.run}/answers/${of.round + 1}/0/${of.node}` }, of.node));
    const followed = group.adopters.map((of) => of.followed);
    return el("div", {}, el("h4", {}, "Who trained on it, and what it answered later"), grid(`Who trained on group ${group.slot}`, ["node", "in round", `its reward on ${group.task} in the 10 rounds before`, sinceThen(Math.min(...followed), Math.max(...followed))], group.adopters.map((of) => [next(of), whole(of.round), figure3(of.before), figure3(of.after)]), [1, 2, 3]));
  }

  end() {}
}
