"""The gate of the page: one browser with the token, no page of another origin, no rebound host name, no form of others."""

from __future__ import annotations

import re

import pytest
from page_browser import HOST, Browser

from ledger import Ledger
from ledger.web.app import PAGES

ROUTES = sorted(
    {f"/{name}" if page.label else f"/{name}/m_1" for name, page in PAGES.items()} | {"/", "/do", "/nothing"}
)


@pytest.fixture
def browser(ledger: Ledger) -> Browser:
    ledger.remember("The user drinks tea.")
    return Browser(ledger, writes=True).enter()


def test_the_token_works_once_and_the_redirect_drops_it(ledger):
    browser = Browser(ledger)
    token = browser.session.token
    assert browser.get("/beliefs").status == 403
    assert browser.get("/enter?token=guess").status == 403
    answer = browser.get(f"/enter?token={token}")
    assert (answer.status, answer.headers["location"]) == (303, "/beliefs")
    assert re.search(r"; HttpOnly; Path=/; SameSite=strict$", answer.headers["set-cookie"])
    assert token not in answer.headers["set-cookie"]
    assert browser.get(f"/enter?token={token}").status == 403
    browser.cookie = answer.headers["set-cookie"].partition(";")[0]
    assert browser.get("/beliefs").status == 200


def test_a_link_of_a_file_enters_without_a_redirect_so_that_the_cookie_is_sent(ledger):
    browser = Browser(ledger)
    answer = browser.get(f"/enter?token={browser.session.token}", sec_fetch_site="cross-site")
    assert (answer.status, answer.headers["refresh"]) == (200, "0; url=/beliefs")
    assert "location" not in answer.headers


def test_a_browser_that_only_looks_ahead_does_not_use_the_token_up(ledger):
    browser = Browser(ledger)
    assert browser.get(f"/enter?token={browser.session.token}", sec_purpose="prefetch").status == 403
    browser.enter()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_origin_gets_nothing_from_any_route(browser, method):
    form = {"content_type": "application/x-www-form-urlencoded", "content_length": "0"} if method == "POST" else {}
    foreign = (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "null", "sec_fetch_site": "none"},
        {"origin": "http://localhost:8767"},
        {"origin": "http://127.0.0.1:9999", "sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    )
    for route in ROUTES:
        for headers in foreign:
            answer = browser.send(method, route, b"", form | headers)
            assert answer.status == 403 and "drinks tea" not in answer.text, (route, headers)


REBOUND = ("evil.example:8767", "127.0.0.1", "127.0.0.1:80", "localhost:8767", "127.0.0.1:8767.evil.example", "")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_rebound_host_name_gets_nothing_from_any_route(browser, method):
    for route in ROUTES:
        for host in REBOUND:
            answer = browser.send(method, route, b"", {"host": host, "origin": f"http://{host}"})
            assert answer.status == 421 and "drinks tea" not in answer.text, (route, host)


def test_nobody_without_the_cookie_gets_anything(browser):
    own = browser.session.cookie
    wrong = ("", "memory_ledger_8767=guess", "other=1", 'memory_ledger_8767="\\', f"memory_ledger_9999={own}")
    for route in ROUTES:
        assert [browser.get(route, cookie=cookie).status for cookie in wrong] == [403] * len(wrong), route


def test_every_answer_forbids_frames_scripts_of_others_and_storing(browser):
    for route in (*ROUTES, "/enter", "/beliefs.json", "/beliefs.md", "/favicon.ico"):
        for answer in (browser.get(route), browser.get(route, cookie=""), browser.get(route, host="evil.example")):
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'sha256-"), route
            assert "unsafe" not in policy and "*" not in policy and "frame-ancestors 'none'" in policy
            assert answer.headers["x-frame-options"] == "DENY" and answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_form_needs_an_origin_a_type_and_a_length(browser):
    good = {"content_type": "application/x-www-form-urlencoded", "content_length": "0", "origin": f"http://{HOST}"}
    assert browser.send("POST", "/do", b"", good | {"origin": ""}).status == 403
    assert browser.send("POST", "/do", b"", good | {"origin": "", "sec_fetch_site": "none"}).status == 403
    assert browser.send("POST", "/do", b"", good | {"content_type": "text/plain"}).status == 415
    assert browser.send("POST", "/do", b"", good | {"content_length": ""}).status == 413
    assert browser.send("POST", "/do", b"", good | {"content_length": str(2 << 20)}).status == 413
    assert browser.send("DELETE", "/do", b"", good).status == 405


def test_the_style_and_the_script_are_those_that_the_policy_names(browser):
    import base64
    import hashlib

    answer = browser.get("/beliefs")
    policy = answer.headers["content-security-policy"]
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.S)
        assert base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode() in policy
    assert " style=" not in answer.text and not re.search(r"\son\w+=", answer.text)
