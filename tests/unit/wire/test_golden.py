"""The files in tests/golden are what other people's programs read and write: they stay as they are."""

from __future__ import annotations

import msgspec
import pytest

from swarm.errors import ProtocolError
from swarm.types import RoundKey
from swarm.wire import messages
from swarm.wire.codec import decode, encode, to_groups
from swarm.wire.messages import RolloutFile
from tests.unit.tasks.gym import FAMILIES, GYM_VERSION
from tests.unit.wire.forms import FORMS, GOLDEN, MINIMAL, ROLLOUTS


def test_every_form_of_the_protocol_has_a_golden_file() -> None:
    files = {
        form
        for form in vars(messages).values()
        if isinstance(form, type) and issubclass(form, msgspec.Struct) and "schema_version" in form.__struct_fields__
    }
    assert files <= {type(message) for message in FORMS.values()}


@pytest.mark.parametrize(("name", "message"), FORMS.items(), ids=FORMS)
def test_encoding_gives_the_golden_files_byte_by_byte(name: str, message: msgspec.Struct) -> None:
    """And decoding gives what they say, whatever else a later version has put into them."""
    golden = (GOLDEN / name).read_bytes()
    assert encode(message) == golden
    later = msgspec.json.encode({"from_the_future": {"a": [1, None]}, **msgspec.json.decode(golden)})
    assert decode(golden, type(message), name) == decode(later, type(message), name) == message


@pytest.mark.parametrize(("form", "data"), MINIMAL.values(), ids=MINIMAL)
def test_a_file_with_the_first_documented_fields_alone_decodes(form: type[msgspec.Struct], data: bytes) -> None:
    said = msgspec.json.decode(data)
    decoded = msgspec.to_builtins(decode(data, form, "a minimal file"))
    said.pop("rollouts", None)  # completions have grown a field, too
    assert said.items() <= decoded.items()


def test_rollouts_of_the_first_form_say_no_origin_and_are_refused_for_that_later() -> None:
    file = decode(MINIMAL["rollouts"][1], RolloutFile, "a minimal file")
    assert [entry.response for entry in file.rollouts["0"]] == ["2", "3"]
    with pytest.raises(ProtocolError) as refusal:
        to_groups(file, "anna", RoundKey(3))
    assert refusal.value.reason == "no_origin"


@pytest.mark.parametrize(("name", "message"), FORMS.items(), ids=FORMS)
def test_an_unknown_version_is_refused_before_anything_else_is_looked_at(name: str, message: msgspec.Struct) -> None:
    for version in (0, 2):
        unknown = {field: {"another": "form"} for field in message.__struct_fields__} | {"schema_version": version}
        with pytest.raises(ProtocolError, match=f"has schema_version {version}, this node reads 1") as refusal:
            decode(msgspec.json.encode(unknown), type(message), name)
        assert refusal.value.reason == "wrong_version"


@pytest.mark.skipif(GYM_VERSION != "0.1.25", reason="the golden questions are those of reasoning-gym 0.1.25")
def test_the_golden_questions_are_what_their_origins_give() -> None:
    for group in to_groups(ROLLOUTS, "anna", RoundKey(17)):
        made = FAMILIES.regenerate(group.question.known_origin())
        assert (group.question.prompt, ROLLOUTS.groups[str(group.slot)].answer) == (made.prompt, made.answer)
