"""The first requests of somebody who tries the HTTP server with curl: the answer says what to send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra http")
pytest.importorskip("uvicorn", reason="needs the extra http")

import httpx2
from http_server import served

from ledger import Ledger
from ledger.doors.tokens import TokenFile

FORM = "application/x-www-form-urlencoded"  # what curl -d sends where no header is given
BODY = b'{"content": "Ada likes tea."}'


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    path: Path = tmp_path_factory.mktemp("http") / "memory.db"
    with Ledger.open(path):
        token = TokenFile(path).make("app", "ada").token
    with served(path) as server, server.client(token) as client:
        yield client


@pytest.mark.parametrize(
    ("media", "came"),
    [(FORM, f"came as {FORM}"), ("text/plain", "came as text/plain"), ("", "came without a Content-Type")],
)
def test_a_body_of_another_media_type_is_told_the_header(http: httpx2.Client, media: str, came: str) -> None:
    answer = http.post("/remember", content=BODY, headers={"Content-Type": media} if media else {})
    advice = "send a JSON object with the header Content-Type: application/json"
    assert answer.status_code == 422
    assert answer.json() == {"error": "InvalidRequest", "message": f"the body {came}; {advice}"}


def test_a_body_that_is_not_json_is_called_so(http: httpx2.Client) -> None:
    answer = http.post("/remember", content=b"{content: tea", headers={"Content-Type": "application/json"})
    message = "the body is not JSON; it has to be a JSON object, as /openapi.json says"
    assert (answer.status_code, answer.json()) == (422, {"error": "InvalidRequest", "message": message})


def test_a_json_body_of_a_wrong_shape_still_names_the_place(http: httpx2.Client) -> None:
    assert "missing required field `content`" in http.post("/remember", json={}).json()["message"]
    assert "Expected `object`" in http.post("/remember", json=["Ada likes tea."]).json()["message"]


def test_a_json_body_with_a_charset_is_taken(http: httpx2.Client) -> None:
    answer = http.post("/remember", content=BODY, headers={"Content-Type": "application/json; charset=utf-8"})
    assert (answer.status_code, answer.json()["content"]) == (201, "Ada likes tea.")


def test_the_messages_of_an_unknown_session_are_not_found(http: httpx2.Client) -> None:
    said = {"messages": [{"role": "user", "content": "I live in Lisbon."}], "session": "monday"}
    assert http.post("/add", json=said).status_code == 201
    assert len(http.get("/session/messages", params={"name": "monday"}).json()["items"]) == 1
    answer = http.get("/session/messages", params={"name": "mondy"})
    message = "no session of this user is called 'mondy'; /sessions/list shows the sessions"
    assert (answer.status_code, answer.json()) == (404, {"error": "NotFoundError", "message": message})
