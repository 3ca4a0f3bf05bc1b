"""A short campaign of kill -9; hundreds of them: `make test-chaos`."""

import pytest

from tests.chaos import kill

pytestmark = pytest.mark.engine


def test_kills_cost_a_swarm_of_light_workers_nothing_but_time(tmp_path, capsys):
    code = kill.run(tmp_path, kills=4, workers=3, light=True, seed=3, pause=0.5, one_by_one=True)
    assert code == 0, capsys.readouterr().out
