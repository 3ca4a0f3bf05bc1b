"""Says which sections a report has, in which order: what was declared comes before what was looked at afterwards."""

from __future__ import annotations

from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.notes import notes_section
from swarm.plugins.study.report.sections import Section
from swarm.plugins.study.report.sections_aha import aha_section
from swarm.plugins.study.report.sections_cost import cost_section, effort_section, traffic_section
from swarm.plugins.study.report.sections_declared import declared_section, exploratory_section
from swarm.plugins.study.report.sections_factors import factors_section, tasks_section
from swarm.plugins.study.report.sections_headline import headline_section
from swarm.plugins.study.report.sections_judge import exam_section, judge_section
from swarm.plugins.study.report.sections_learned import learned_section
from swarm.plugins.study.report.sections_models import models_section
from swarm.plugins.study.report.sections_paper import paper_section
from swarm.plugins.study.report.sections_planted import planted_section
from swarm.plugins.study.report.sections_price import price_section
from swarm.plugins.study.report.sections_progress import final_section, steadiness_section, thresholds_section
from swarm.plugins.study.report.sections_reward import agents_section, average_section
from swarm.plugins.study.report.sections_setup import runs_section, setup_section
from swarm.plugins.study.report.sections_split import split_section
from swarm.plugins.study.report.sections_start import start_section
from swarm.plugins.study.report.sections_supply import supply_section

SECTIONS = (
    notes_section,
    setup_section,
    declared_section,
    exploratory_section,
    learned_section,
    planted_section,
    factors_section,
    tasks_section,
    headline_section,
    paper_section,
    average_section,
    agents_section,
    models_section,
    thresholds_section,
    steadiness_section,
    final_section,
    cost_section,
    effort_section,
    price_section,
    traffic_section,
    aha_section,
    split_section,
    judge_section,
    exam_section,
    start_section,
    supply_section,
    runs_section,
)


def contents(evidence: Evidence) -> list[Section]:
    """Returns the sections that the evidence allows; those that ask about what was not done are left out."""
    found = (section(evidence) for section in SECTIONS)
    return [section for section in found if section]
