"""Language models as agents: what they say is read, never run; what goes wrong with them is bounded."""

import ast
import inspect
import json
import time
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from chat_server import ChatServer, completion, drip, hang_up, raw, status

from chop.core.errors import EvolutionError
from chop.evolution import language_agents
from chop.evolution.agents import Agent, Brief
from chop.evolution.chat import MAX_ANSWER_BYTES, Chat, ChatError
from chop.evolution.journal import JOURNAL_FILE, Journal, comparable
from chop.evolution.language_agents import (
    TRANSCRIPT,
    Budget,
    LanguageModel,
    operator_reference,
    parse_answer,
    question_messages,
)
from chop.evolution.population import Candidate
from chop.evolution.report import write_report
from chop.evolution.search import evolve
from chop.evolution.space import Space
from chop.evolution.tasks import load_task

TOY = str(Path(__file__).parents[1] / "assets" / "toy_task.py")
KEY = "sk-never-to-be-seen-4711"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("CHOP_LLM_KEY", KEY)


@pytest.fixture(scope="module")
def space():
    return Space.of(load_task(TOY))


def brief(space, count=4):
    start = Candidate(0, "icon", "done", (1.0,) * 20, (1.0,) * 20, 1, 1)
    return Brief(1, [start], [start], space, Random(0), frozenset({"icon"}), count)


def chat(server, **given):
    return Chat(server.url, "small", **{"sleep": lambda seconds: None, "timeout": 5.0, **given})


GOOD = """Let me think.
PROGRAM: rescale(target=0.3) | icon
2. **PROGRAM:** `correct(icon)`
PROGRAM: rescale(target=0.3) | icon
PROGRAM: icon
PROGRAM: nonsense(icon)
GUIDANCE: smaller targets are better
"""


def test_programs_and_guidance_are_read(space):
    programs, guidance, refused = parse_answer(GOOD, brief(space))
    assert programs == ["rescale(target=0.3) | icon", "correct(icon)"]
    assert guidance == "smaller targets are better"
    assert refused == 1, "an unknown operator"
    fenced = "Here:\n```\ncorrect(icon)\nflip | icon\n```\nGood luck, icon | finite"
    assert parse_answer(fenced, brief(space))[0] == ["correct(icon)", "flip | icon"]


def test_the_question_holds_operators_scores_traces_and_guidance(space):
    asked = question_messages(Agent(1, "llm", "be bold"), brief(space), lambda candidate: "TRACE OF ICON")
    system, user = asked[0]["content"], asked[1]["content"]
    for operator in space.operators:
        assert f"- {operator.name} (" in system
    assert "spread of the mapped prompt" in system
    assert "moving_frame" not in system, "only what suits the task"
    assert "1.0000  1 model calls  icon" in user
    assert "TRACE OF ICON" in user
    assert "be bold" in user
    assert operator_reference(space) == system


def hostile():
    """Fifty answers nobody should follow."""
    deep, wide = 5000, 100_000
    texts = [
        "__import__('os').system('touch hacked')",
        "import os",
        "exec('1')",
        "eval('icon')",
        "open('/etc/passwd')",
        "icon.__class__",
        "icon.__class__.__mro__[1].__subclasses__()",
        "().__class__",
        "lambda: icon",
        "[icon]",
        "{icon}",
        "icon if True else flip",
        "icon or flip",
        "icon and icon",
        "not icon",
        "icon[0]",
        "icon()()",
        "(icon := flip)",
        "f'{icon}'",
        "'{0.__class__}'.format(icon)",
        "'%s' % icon",
        "icon; flip",
        "yield icon",
        "await icon",
        "*icon",
        "**icon",
        "rescale(target=__import__('os')) | icon",
        "rescale(**{}) | icon",
        "rescale(target=1e999) | icon",
        "rescale(target=-1) | icon",
        f"rescale(target={'9' * 4000}) | icon",
        f"rescale(target={'9' * 3000}e{'9' * 900}) | icon",
        "rescale(target=nan) | icon",
        "rescale(target=float('inf')) | icon",
        "rescale(center='../../etc') | icon",
        "correct(icon, gap=10**9)",
        "nearest_examples(k=99999999999999999999) | icon",
        "average(" * deep + "icon" + ")" * deep,
        "(" * deep + "icon" + ")" * deep,
        "correct(" * 39 + "icon" + ")" * 39,
        "flip | " * 500 + "icon",
        "average(" + "icon, " * wide + "icon)",
        "average(" + "icon, " * 90 + "icon)",
        "іcon",
        "icon\u202e",
        "ｉｃｏｎ",
        "icon\x00",
        "correct(icon)\u2028import os",
        "icοn | finite",
        "select(correct(combine(debias(icon), icon)), correct(debias(correct(icon))), pad='x')",
    ]
    assert len(texts) == 50
    return texts


def test_hostile_answers_are_refused_in_bounded_time_and_memory(space, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = brief(space)
    for form in ("PROGRAM: {}", "```\n{}\n```"):
        for text in hostile():
            tracemalloc.start()
            begun = time.process_time()
            programs, guidance, _ = parse_answer(form.replace("{}", text), asked)
            seconds = time.process_time() - begun
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert programs == [], text[:80]
            assert guidance is None
            assert seconds < 2, text[:80]
            assert peak < 50 * 2**20, text[:80]
    assert list(tmp_path.iterdir()) == []


def test_a_flood_of_lines_is_cut(space):
    flood = "\n".join(f"PROGRAM: rescale(target=0.{i}) | icon" for i in range(1, 100_000))
    begun = time.process_time()
    programs, _, _ = parse_answer(flood, brief(space))
    assert len(programs) == 4
    assert time.process_time() - begun < 5
    _, guidance, _ = parse_answer("GUIDANCE: " + "x\x07" * 100_000, brief(space))
    assert len(guidance) <= 1500
    assert guidance.isprintable()


def test_an_answer_comes_with_its_tokens_and_the_key_in_one_header():
    with ChatServer("hello") as server:
        reply = chat(server).ask([{"role": "user", "content": "hi"}])
    assert (reply.text, reply.tokens) == ("hello", 100)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.requests[0]["model"] == "small"
    assert KEY not in json.dumps(server.requests)


def test_busy_servers_are_asked_again_when_they_say():
    waits = []
    with ChatServer(
        status(429, Retry_After="7"), status(503), status(500, Retry_After="soon"), "hello"
    ) as server:
        assert chat(server, sleep=waits.append).ask([]).text == "hello"
    assert waits[0] == 7.0
    assert 0 < waits[1] <= 2
    assert 0 < waits[2] <= 4
    waits.clear()
    with ChatServer(status(429, Retry_After="80000")) as server, pytest.raises(ChatError, match="status 429"):
        chat(server, sleep=waits.append, patience=60.0).ask([])
    assert waits == [60.0, 60.0, 60.0], "nobody is waited for all day"


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"not json"), raw(b"[]"), raw(b'{"choices": []}'), raw(b"[" * 100_000),
        raw(b'{"choices": [{"message": {"content": 7}}]}'),
        raw(b"\xff\xfe"), raw(b'{"a": ' + b"9" * 10_000 + b"}"), raw(b""), hang_up,
    ],
)  # fmt: skip
def test_broken_answers_are_an_error_after_some_attempts(answer):
    with ChatServer(answer) as server:
        with pytest.raises(ChatError, match="did not answer"):
            chat(server, attempts=3).ask([])
        assert len(server.requests) == 3


def test_refusals_are_not_repeated_and_never_show_the_key():
    with ChatServer(status(401, f"bad key {KEY}".encode())) as server:
        with pytest.raises(ChatError, match=r"status 401: bad key \[key\]"):
            chat(server).ask([])
        assert len(server.requests) == 1


def test_no_redirect_is_followed():
    with ChatServer("elsewhere") as other:
        moved = status(307, Location=f"{other.url}/chat/completions")
        with ChatServer(moved) as server, pytest.raises(ChatError, match="status 307"):
            chat(server).ask([])
        assert other.requests == []


def test_slow_and_endless_answers_are_cut():
    begun = time.monotonic()
    with ChatServer(drip(30)) as server, pytest.raises(ChatError):
        chat(server, timeout=0.5, attempts=2).ask([])
    assert time.monotonic() - begun < 10
    with (
        ChatServer(raw(b"x" * (MAX_ANSWER_BYTES + 10))) as server,
        pytest.raises(ChatError, match="more than"),
    ):
        chat(server).ask([])


def silent(handler):
    """Takes a question and says nothing."""
    time.sleep(2)


def half(handler):
    """Promises nothing, sends a little, and then waits: what was read would end anywhere."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"choices": ')
    handler.wfile.flush()
    time.sleep(2)


@pytest.mark.parametrize("answer", [drip(2), silent, half], ids=["drip", "silent", "half"])
def test_our_own_time_out_is_called_by_its_name(answer):
    with (
        ChatServer(answer) as server,
        pytest.raises(ChatError, match=r"did not answer: no answer within 0\.3 s$"),
    ):
        chat(server, timeout=0.3, attempts=1).ask([])


def test_nobody_there_is_a_sentence():
    with pytest.raises(ChatError, match=r"at 127\.0\.0\.1 did not answer: ConnectionRefusedError"):
        Chat("http://127.0.0.1:9/v1", "m", sleep=lambda seconds: None).ask([])


@pytest.mark.parametrize(
    "url", ["ftp://host", "host:80", "http://", "http://user:pw@host/v1", "http://h/v1?key=1"]
)
def test_addresses_are_checked(url):
    with pytest.raises(EvolutionError, match="the address of a language model must"):
        Chat(url, "m")


def test_a_key_that_breaks_headers_is_refused(monkeypatch):
    monkeypatch.setenv("CHOP_LLM_KEY", "one\r\nX-Evil: two")
    with pytest.raises(EvolutionError, match="the key in the environment") as error:
        Chat("http://localhost/v1", "m")
    assert "Evil" not in str(error.value)


def answers():
    return "\n".join(
        ["PROGRAM: rescale(target=0.3) | icon", "PROGRAM: rescale(target=0.2) | correct(icon)",
         f"PROGRAM: __import__('os') {KEY}", f"GUIDANCE: try smaller targets <script>{KEY}</script>"]
    )  # fmt: skip


def search(server, folder, budget=25, agents="llm,mutator", **given):
    said = []
    model = LanguageModel(chat(server), folder, show=said.append, **given)
    found = evolve(TOY, budget, out=folder, agents=agents, proposers={"llm": model}, guidance="begin")
    return found, said


def test_a_language_model_takes_part(tmp_path):
    with ChatServer(answers()) as server:
        found, _ = search(server, tmp_path)
    assert "rescale(target=0.3) | icon" in {candidate.text for candidate in found.state.candidates}
    assert any(candidate.move == "llm" for candidate in found.state.candidates)
    children = [agent for agent in found.state.agents.values() if agent.kind == "llm" and agent.parent]
    assert [agent.guidance for agent in children] == ["try smaller targets <script>[key]</script>"]
    page, _ = write_report(found)
    assert "<script" not in page.read_text(encoding="utf-8")
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes(), f"the key is in {path.name}"
    transcript = (tmp_path / TRANSCRIPT).read_text(encoding="utf-8")
    assert "rescale(target=0.2) | correct(icon)" in transcript
    assert "[key]" in transcript


def test_what_was_said_is_not_asked_again(tmp_path):
    with ChatServer(answers()) as server:
        search(server, tmp_path)
        asked = len(server.requests)
        before = [comparable(record) for record in Journal(tmp_path, None).records]
        lines = (tmp_path / JOURNAL_FILE).read_bytes().splitlines(keepends=True)
        (tmp_path / JOURNAL_FILE).write_bytes(b"".join(lines[:8]))
        search(server, tmp_path)
        assert len(server.requests) == 2 * asked - 1, "the first answer was kept"
        assert [comparable(record) for record in Journal(tmp_path, None).records] == before


@pytest.mark.parametrize("answer", [hang_up, raw(b"lies"), status(500), status(403)])
def test_a_language_model_that_fails_stops_nobody(tmp_path, answer):
    with ChatServer(answer) as server:
        found, said = search(server, tmp_path, budget=25)
    assert len(found.state.candidates) > 13
    assert said
    assert "the language model at 127.0.0.1" in said[0]
    notes = [r["notes"] for r in Journal(tmp_path, None).records if r["kind"] == "said"]
    assert "problem" in notes[0]


def test_the_token_budget_is_kept_over_sessions(tmp_path):
    with ChatServer(answers()) as server:
        model = LanguageModel(chat(server), tmp_path, budget=Budget(tokens=150))
        evolve(TOY, 61, out=tmp_path, agents="llm,mutator", proposers={"llm": model}, guidance="begin")
        assert len(server.requests) == 2, "100 tokens each, and 150 were allowed"
        assert LanguageModel(chat(server), tmp_path).tokens == 200


@pytest.mark.parametrize("agents", ["llm", "llm,llm,llm,llm", "llm,mutator"])
def test_a_model_that_repeats_itself_is_not_asked_for_ever(tmp_path, agents):
    """Questions are bounded by the new programs they bring; whoever runs the search is told."""
    with ChatServer(answers()) as server:
        found, said = search(server, tmp_path, budget=49, agents=agents)
    fruitful = len({c.iteration for c in found.state.candidates if c.move == "llm"})
    assert len(server.requests) <= Budget().fruitless * (fruitful + 1)
    assert said == [
        "the language model at 127.0.0.1 gave no new program 5 times in a row: it is not asked again"
    ]
    notes = [r["notes"].get("problem") for r in Journal(tmp_path, None).records if r["kind"] == "said"]
    assert notes[-1] == "not asked after too many answers without a new program"


def test_a_model_that_has_something_new_now_and_then_is_asked_on(tmp_path):
    script = (
        ["nothing"] * 4 + ["PROGRAM: flip | icon"] + ["nothing"] * 4 + ["PROGRAM: correct(icon)", "nothing"]
    )
    with ChatServer(*script) as server:
        _, said = search(server, tmp_path, budget=61, agents="llm")
    assert len(server.requests) == 10 + Budget().fruitless
    assert len(said) == 1


def test_a_search_that_ends_early_says_so(tmp_path):
    said = []
    with ChatServer("nothing") as server:
        model = LanguageModel(chat(server), tmp_path)
        evolve(
            TOY, 61, out=tmp_path, agents="llm", proposers={"llm": model}, guidance="begin", show=said.append
        )
    assert said == ["30 races in a row proposed nothing new: the search ends after 1 candidates"]


def test_usage_may_be_missing_or_a_lie():
    body = completion("hi")
    for usage in (None, {}, {"total_tokens": "many"}, {"total_tokens": -5}, {"total_tokens": 10**30}):
        body["usage"] = usage
        with ChatServer(raw(json.dumps(body).encode())) as server:
            assert 0 < chat(server).ask([]).tokens < 1000


def test_parsing_is_the_only_way_in():
    """The language agent's module has no other door: nothing that runs, opens or imports what is said."""
    tree = ast.parse(inspect.getsource(language_agents))
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "open", "__import__", "getattr", "setattr"}
    assert "parse" in called
