"""The front page and the page of one belief: what they show, filter, count, cut and export."""

from __future__ import annotations

import json
import re

import pytest
from hostile import EVIL, HOSTILE, RAW
from page_browser import Browser

from ledger import Ledger

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><b>"


@pytest.fixture
def browser(ledger: Ledger) -> Browser:
    return Browser(ledger).enter()


def test_an_empty_ledger_says_what_to_do(browser):
    page = browser.get("/beliefs")
    assert page.status == 200
    assert "Nothing is believed yet." in page.words and 'memory-ledger remember "The user drinks tea."' in page.words


def test_the_front_page_lists_what_is_believed_with_its_origin(ledger, browser):
    tea = ledger.bind(actor="ada").remember(
        "The user drinks tea.", kind="preference", project="kitchen", confidence=0.7
    )
    ledger.retract(ledger.remember("The user drinks coffee.").id)
    page = browser.get("/beliefs")
    assert "1 belief · active, newest first · memory of the user without a name · times in UTC" in page.words
    for shown in ("The user drinks tea.", "preference", "confidence 0.7", "project kitchen", "by ada", tea.id):
        assert shown in page.words
    assert "coffee" not in page.words
    assert "coffee" in browser.get("/beliefs?status=retracted").words
    assert browser.get("/").headers["location"] == "/beliefs"


@pytest.mark.parametrize(
    "filter",
    [
        "q=tea",
        "kind=preference",
        "project=kitchen",
        "actor=ada",
        "channel=agent",
        "session=s1",
        "q=tea&actor=ada&days=9000",
        "days=9000&kind=preference",
    ],
)
def test_each_filter_keeps_what_it_names(ledger, browser, filter):
    ada = ledger.bind(actor="ada", channel="agent")
    ada.remember("The user drinks tea.", kind="preference", project="kitchen", session="s1")
    ledger.remember("The mast is up.", valid_from="2001-01-01")
    page = browser.get(f"/beliefs?{filter}")
    assert page.status == 200 and "The user drinks tea." in page.words and "mast" not in page.words
    assert [row["content"] for row in browser.get(f"/beliefs.json?{filter}").json["items"]] == ["The user drinks tea."]
    exported = browser.get(f"/beliefs.jsonl?{filter}").text.splitlines()
    assert [json.loads(line)["content"] for line in exported] == ["The user drinks tea."]


def test_a_filter_without_matches_offers_the_way_back(ledger, browser):
    ledger.remember("The mast is up.")
    assert "Nothing passes these filters. Show all beliefs" in browser.get("/beliefs?project=nowhere").words


def test_pages_of_a_hundred_go_forth_and_back_with_their_filter(ledger, browser):
    with ledger.batch():
        for number in range(250):
            ledger.remember(f"Fact number {number}.", kind="fact", valid_from="2026-01-01")
    first = browser.get("/beliefs?kind=fact")
    assert "250 beliefs · active" in first.words and first.text.count("<li>") == 100 and "Previous" not in first.words
    (second,) = re.findall(r'rel="next" href="([^"]*)"', first.text)
    page = browser.get(second.replace("&amp;", "&"))
    assert "Fact number 149." in page.words and "Fact number 150." not in page.words and "kind=fact" in second
    (back,) = re.findall(r'rel="prev" href="([^"]*)"', page.text)
    assert browser.get(back.replace("&amp;", "&")).words == first.words
    assert len(browser.get("/beliefs.jsonl?kind=fact").text.splitlines()) == 250
    assert browser.get("/beliefs.md?kind=fact").text.count("\n- ") == 250


def test_a_count_ends_at_a_thousand_and_says_so(ledger, browser):
    with ledger.batch():
        for number in range(1_050):
            ledger.remember(f"Fact number {number}.")
    assert "more than 1,000 beliefs · active" in browser.get("/beliefs").words


def test_a_long_text_is_cut_with_a_word_and_a_link(ledger, browser):
    memory = ledger.remember("long " * 1_000 + "the end.")
    assert "cut at 2,000 characters; the belief has all 5,008" in browser.get("/beliefs").words
    page = browser.get(f"/belief/{memory.id}")
    assert "the end." not in page.words and f'href="/belief/{memory.id}.md">the whole text' in page.text
    assert "the end." in browser.get(f"/belief/{memory.id}.md").text


def test_a_belief_adds_up_and_shows_the_words_it_is_from(ledger, browser):
    turn = ledger.bind(actor="ada").capture("I prefer green tea in the morning.", "Noted.", session="s1")
    ledger.extract(turn.id, method="rules")
    (memory,) = ledger.memories.list(statuses=())
    ledger.memories.set_confidence(memory.id, 0.6)
    ledger.capture("What next?", "Green tea.", session="s2", memories_used=[memory.id])
    page = browser.get(f"/belief/{memory.id}")
    assert re.search(r"<mark>[^<]*prefer green tea", page.text)
    assert "In 1 of 2 recorded prompts" in page.words and "/session/named?name=s2" in page.text
    shown = [float(text) for text in re.findall(r'<td class="n">([+-][\d.e-]+)</td>', page.text)]
    assert sum(shown) == pytest.approx(ledger.memories.get(memory.id).confidence)
    assert page.text.count("<svg") >= 3


def test_wordings_are_shown_as_a_difference(ledger, browser):
    memory = ledger.remember("The mast is up.")
    ledger.revise(memory.id, "The mast is down.", reason="a storm")
    page = browser.get(f"/belief/{memory.id}")
    assert "<del>up.</del><ins>down.</ins>" in page.text
    successor = ledger.supersede(memory.id, "The mast is gone.")
    assert "<del>down.</del><ins>gone.</ins>" in browser.get(f"/belief/{successor.id}").text


def test_a_belief_shows_itself_as_of_each_position(ledger, browser):
    memory = ledger.remember("The mast is up.")
    ledger.revise(memory.id, "The mast is down.")
    then = browser.get(f"/belief/{memory.id}?at={memory.position}")
    assert "The mast is up." in then.words and "is down" not in then.words and "back to now" in then.words
    assert f'type="range" name="at" min="{memory.position}" max="{ledger.position}"' in then.text
    assert f'href="/beliefs?at={memory.position}"' in then.text


def test_the_page_of_the_past_stays_there(ledger):
    memory = ledger.remember("The mast is up.")
    ledger.revise(memory.id, "The mast is down.")
    browser = Browser(ledger, writes=True, as_of=str(memory.position)).enter()
    page = browser.get("/beliefs?at=99999")
    assert "The mast is up." in page.words and "is down" not in page.words and '<form class="acts' not in page.text
    assert "read only" in page.words


def test_observations_and_values_have_a_page_too(ledger, browser):
    tea = ledger.remember("The user drinks tea.")
    seen = ledger.observations.add("All is well.", [tea.id])
    value = ledger.values.put(("settings",), "city", {"name": "Lisbon"})
    assert "All is well." in browser.get(f"/belief/{seen.id}").words
    assert "Lisbon" in browser.get(f"/belief/{value.id}").words
    assert "Lisbon" in browser.get(f"/belief/{value.id}.md").text


def test_a_belief_as_markdown_is_no_more_than_text(ledger, browser):
    memory = ledger.remember("<b>x</b> [link](http://evil.example) | `code` @team #1")
    text = browser.get(f"/belief/{memory.id}.md").text
    assert r"\<b\>x\</b\> \[link\]\(http://evil.example\) \| \`code\` \@team \#1" in text
    assert f"# Belief `{memory.id}`" in text and "- confidence: 1" in text
    assert browser.get(f"/belief/{memory.id}.json").json["id"] == memory.id


@pytest.mark.parametrize("text", [EVIL, SCRIPT + EVIL, *HOSTILE[-12:-3]], ids=lambda text: repr(text[:20]))
def test_no_text_of_a_person_is_ever_html(ledger, text):
    ledger.policy.set(threats="off")
    hand = ledger.bind(actor=SCRIPT, client=SCRIPT, agent=SCRIPT)
    turn = hand.capture(text + " 1", text + " 2", session=SCRIPT, project=SCRIPT)
    memory = hand.remember(text + ".", tags=[SCRIPT], project=SCRIPT, session=SCRIPT, sources=[turn.id])
    hand.revise(memory.id, text + " again", reason=text)
    browser = Browser(ledger).enter()
    for address in ("/beliefs", f"/belief/{memory.id}", "/beliefs.md", f"/belief/{memory.id}.md"):
        answer = browser.get(address)
        assert answer.status == 200 and RAW.search(answer.text) is None
        assert not re.search(r"(?<!\\)<(img|b)\b(?! hidden)", answer.text)
        assert answer.text.count("<script>") == (0 if address.endswith(".md") else 1)


def test_hostile_addresses_are_answered_with_a_sentence(ledger, browser):
    from urllib.parse import quote

    for text in (SCRIPT, EVIL, *HOSTILE[:24:3]):
        for name in ("q", "kind", "project", "session", "actor", "channel", "status", "days", "after", "at", "back"):
            page = browser.get(f"/beliefs?{name}={quote(text[:500])}")
            assert page.status in (200, 400, 404), (name, text, page.words[-400:])
            assert page.text.count("<script>") == 1 and "<img" not in page.text
        assert browser.get(f"/belief/{quote(text[:100] or 'x')}").status in (303, 400, 404)
    assert browser.get("/beliefs?" + "&".join(["a=1"] * 3_000)).status == 400


def test_opening_pages_changes_nothing(ledger, browser):
    memory = ledger.remember("The user drinks tea.")
    before = ledger.proof.digest()
    for address in (
        "/beliefs",
        "/beliefs?q=tea",
        f"/belief/{memory.id}",
        f"/belief/{memory.id}.json",
        "/beliefs.jsonl",
    ):
        assert browser.get(address).status == 200
    assert ledger.proof.digest() == before


def test_the_page_shows_one_user_and_says_that_there_are_others(ledger):
    ledger.bind(user="ben").remember("The dinghy leaks.")
    ada = ledger.bind(user="ada")
    ada.remember("The mast is up.")
    page = Browser(ada, user="ada").enter().get("/beliefs")
    assert "The mast is up." in page.words and "dinghy" not in page.words
    assert "memory of ada" in page.words and "This file holds the memory of other users too." in page.words


def test_who_is_alone_on_file_is_told_of_nobody_else(tmp_path):
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        ledger.remember("The mast is up.")
        browser = Browser(ledger, user="ada").enter()
        assert "other users" not in browser.get("/beliefs").words
        assert "did not work memory of ada" in browser.get("/nothing").words
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("The dinghy leaks.")
        page = Browser(ledger.bind(user="ada"), user="ada").enter().get("/beliefs")
        assert "This file holds the memory of other users too." in page.words
