// Which view is shown, and what keeps it up to date. The address is #run/view/what.

import { Answers } from "./answers.js";
import { Follower, History, ask, isFrozen, unfreeze } from "./data.js";
import { el, fill, lasting, moment, percent, plural, whole } from "./text.js";
import { Experiments, Health, Journal, Nodes, Overview, Settings, Sharing, findings } from "./views.js";

const FIRST = ["my_reward", "answer_tag_rate", "earned"];
const VIEWS = { overview: ["Overview", Overview], nodes: ["Nodes and tasks", Nodes], answers: ["Answers", Answers], sharing: ["Sharing", Sharing], health: ["Health", Health], log: ["Log", Journal], settings: ["Run with", Settings], experiments: ["Experiments", Experiments] };
const HOME = document.querySelector('meta[name="swarm-experiment"]').content;
const place = (name) => document.getElementById(name);

const shown = { run: null, view: null, standing: null, history: null, follower: null };

function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function route() {
  const parts = location.hash.slice(1).split("/").map(plain);
  return { run: parts[0] || HOME, name: Object.hasOwn(VIEWS, parts[1] ?? "") ? parts[1] : "overview", rest: parts.slice(2) };
}

async function follow(run) {
  shown.follower?.end();
  Object.assign(shown, { run, standing: null, history: new History(run), follower: null });
  place("run-name").textContent = run;
  document.title = `${run} · swarm`;
  place("clock").textContent = "Reading the run…";
  place("live").textContent = isFrozen() ? "frozen copy" : "";
  const standing = await ask(run, "standing");
  await shown.history.load(FIRST);
  shown.standing = standing;
  header();
  if (!isFrozen()) shown.follower = new Follower(shown.history, (said) => take(run, said));
}

function take(run, said) {
  if (run !== shown.run) return;
  const trouble = said.lost ?? said.problem;
  if (said.standing) shown.standing = said.standing;
  const over = trouble ? "" : whyOver(shown.standing);
  place("live").textContent = trouble ?? (over || "live");
  place("live").className = trouble ? "live lost" : over ? "live over" : "live";
  if (!said.standing) return;
  header();
  shown.view?.update(shown.standing, shown.history);
}

// Why nothing new is to be expected of the run; empty: something is.
function whyOver(of) {
  if (of.finished) return "finished";
  if (of.nodes.some((node) => node.live)) return "";
  return of.round === null && !of.rounds_done ? "not started" : "stopped";
}

function header() {
  const of = shown.standing;
  const done = of.rounds_done;
  const of_ = of.max_rounds ? ` of ${whole(of.max_rounds)}` : "";
  const behind = of.max_rounds ? done / of.max_rounds : null;
  const alive = of.nodes.some((node) => node.live);
  // Rounds count from 0: the charts and answers name the last one that is done.
  const behindIt = `${of_ ? `${whole(done)}${of_} rounds` : plural(done, "round")} done${done > 1 ? `, 0 to ${whole(done - 1)}` : ""}${behind !== null ? ` (${percent(behind)})` : ""}`;
  const state = of.finished ? `Finished: ${plural(of.round ?? done, "round")}` : of.round === null && !done ? "The clock has not started" : alive ? behindIt : `Stopped: ${behindIt}; nobody is alive`;
  const left = !of.finished && alive && of.seconds_left !== null ? `, about ${lasting(of.seconds_left)} left` : "";
  place("clock").textContent = `${state}${left}`;
  place("progress").hidden = behind === null;
  if (behind !== null) place("progress-bar").style.setProperty("width", `${Math.min(100, 100 * behind)}%`);
  tabs();
}

function tabs() {
  const { name } = route();
  const hints = shown.standing ? findings(shown.standing).length : 0;
  fill(place("views"), Object.entries(VIEWS).map(([key, [title]]) => el("li", {}, el("a", { href: `#${shown.run}/${key}`, "aria-current": key === name ? "page" : undefined }, title, key === "health" && hints ? " " : null, key === "health" && hints ? el("span", { class: "badge" }, String(hints), el("span", { class: "hidden" }, " findings")) : null))));
}

let turn = 0;

async function show(event) {
  const { run, name, rest } = route();
  const mine = (turn += 1);
  if (event) scrollTo(0, 0);
  shown.view?.end();
  shown.view = null;
  try {
    if (run !== shown.run || !shown.standing) await follow(run);
    if (mine !== turn) return;
    const view = new VIEWS[name][1](run, ...rest);
    tabs();
    place("views").querySelector("[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
    place("content").replaceChildren(el("h2", { class: "hidden" }, VIEWS[name][0]), view.root);
    await view.start?.(shown.history, History, shown.standing);
    if (mine !== turn) return view.end();
    shown.view = view;
    view.update(shown.standing, shown.history);
    view.goal?.scrollIntoView();
    document.body.dataset.ready = `${run}/${name}`;
  } catch (error) {
    if (mine === turn) place("content").replaceChildren(el("p", { class: "empty", role: "alert" }, error.message));
  }
  return null;
}

async function begin() {
  const frozen = await unfreeze();
  if (frozen) {
    place("frozen-note").hidden = false;
    place("frozen-note").textContent = `As the run was on ${moment(frozen.wall)}. Of the answers a sample of rounds is kept, of the log the last events.`;
  }
  place("skip").addEventListener("click", (event) => { event.preventDefault(); place("content").focus(); });
  addEventListener("hashchange", show);
  await show();
}

begin();
