"""The frozen exam as a frame: what nodes scored on one fixed set of held-out questions, before and after training."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd

from swarm.records.files import read_exam
from swarm.study.record import StudyRecord, open_run
from swarm.wire.messages import ExamRow

COLUMNS = ("configuration", "seed", *ExamRow.__struct_fields__)


def read_exams(path: Path, record: StudyRecord) -> pd.DataFrame:
    """One row per node, moment and task of the runs that were examined; empty without any.

    Args:
        path: the shared folder.
        record: of the study.

    Raises:
        ProtocolError: an exam file is there and is not a list of such rows.
    """
    rows = [
        {"configuration": run.configuration, "seed": run.seed} | msgspec.structs.asdict(row)
        for run in record.runs
        for row in read_exam(open_run(path, run.experiment))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
