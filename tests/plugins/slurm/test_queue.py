from swarm.plugins.slurm.queue import LOOK_SECONDS, Queue, parse

SAID = "7|PENDING|Resources|swarm-a-1\n8|RUNNING|None|swarm-b-1\nslurm_load_jobs error\n"


def test_jobs_are_found_by_their_names_and_odd_lines_are_none() -> None:
    assert {name: job.id for name, job in parse(SAID).items()} == {"swarm-a-1": "7", "swarm-b-1": "8"}


def test_a_job_that_waits_says_for_what() -> None:
    jobs = parse(SAID)
    assert jobs["swarm-a-1"].note == "job 7 pending, Resources"
    assert jobs["swarm-b-1"].note == "job 8 running"


def test_the_controller_is_asked_now_and_then_however_often_we_look() -> None:
    now, asked = [0.0], []

    def ask() -> str:
        asked.append(now[0])
        return SAID

    queue = Queue(lambda: now[0], ask)
    for _ in range(100):
        assert queue.find("swarm-a-1")
        assert queue.find("swarm-c-1") is None
        now[0] += LOOK_SECONDS / 10
    assert len(asked) == 10


def test_a_controller_that_is_away_has_not_ended_any_job() -> None:
    now, said = [0.0], [SAID, None, ""]
    queue = Queue(lambda: now[0], lambda: said.pop(0))
    assert queue.find("swarm-a-1")
    now[0] += LOOK_SECONDS
    assert queue.find("swarm-a-1"), "it did not answer"
    now[0] += LOOK_SECONDS
    assert queue.find("swarm-a-1") is None


def test_a_job_that_was_just_submitted_is_there_before_the_next_look() -> None:
    queue = Queue(lambda: 0.0, lambda: "")
    assert queue.find("swarm-a-1") is None
    queue.add("swarm-a-1", "7")
    job = queue.find("swarm-a-1")
    assert job is not None
    assert job.id == "7"
