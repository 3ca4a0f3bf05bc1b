"""Which sections a report has, in which order."""

from __future__ import annotations

from swarm.study.analysis.measures import totals
from swarm.study.report.evidence import Evidence
from swarm.study.report.notes import notes_section
from swarm.study.report.sections import Section
from swarm.study.report.sections_aha import aha_section
from swarm.study.report.sections_cost import cost_section, split_section, traffic_section
from swarm.study.report.sections_headline import comparison_table, headline_section
from swarm.study.report.sections_judge import exam_section, judge_section
from swarm.study.report.sections_progress import final_section, steadiness_section, thresholds_section
from swarm.study.report.sections_reward import agents_section, average_section
from swarm.study.report.sections_setup import runs_section, setup_section
from swarm.study.report.sections_start import start_section


def contents(evidence: Evidence) -> list[Section]:
    """The sections that the evidence allows; those that ask about what was not done are left out."""
    record, metrics, look, window = evidence.record, evidence.metrics, evidence.look, evidence.window
    finished = evidence.finished
    runs = totals(finished)
    compared = comparison_table(runs, record)
    sections = (
        setup_section(record, evidence.command),
        headline_section(compared, runs, record, look),
        notes_section(compared, evidence.progress, record),
        agents_section(metrics, look, window),
        average_section(metrics, look, window),
        thresholds_section(finished, runs, look),
        steadiness_section(finished, look),
        final_section(finished, runs, look),
        cost_section(metrics, look, window),
        traffic_section(metrics, look),
        aha_section(finished, look),
        split_section(metrics, look, window),
        judge_section(evidence.judged_finished, record, look),
        exam_section(evidence.exams, look),
        start_section(compared, runs, record, look),
        runs_section(record, evidence.progress, evidence.versions),
    )
    return [section for section in sections if section]
