"""The pytest plugin that puts a door in the place of a library's class, and reports what its official tests said."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tools.doors.official import CONTRACTS, STAND_INS
from tools.doors.stand_ins.naming import is_named

CONTRACT = CONTRACTS[os.environ["OFFICIAL_CONTRACT"]]
_passed, _failed = set[str](), set[str]()
_reasons, _used = Counter[str](), set[str]()


def pytest_configure() -> None:
    for path, stand_in in CONTRACT.replaced.items():
        module, _, name = path.rpartition(".")
        own_module, _, own_name = stand_in.rpartition(".")
        own = getattr(importlib.import_module(f"{STAND_INS}.{own_module}"), own_name)
        library = importlib.import_module(module)
        getattr(library, name)  # a name that the library no longer has is an error
        setattr(library, name, own)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        part = next((part for part in CONTRACT.not_applicable if is_named(item.nodeid, part)), None)
        if part is None:
            kept.append(item)
        else:
            _used.add(part)
            _reasons[CONTRACT.not_applicable[part]] += 1
            left_out.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)
    elif report.when == "call" and report.passed:
        _passed.add(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    seen = {
        "passed": sorted(_passed - _failed),
        "failed": sorted(_failed),
        "not_applicable": dict(_reasons),
        "unused": sorted(CONTRACT.not_applicable.keys() - _used),
    }
    Path(os.environ["OFFICIAL_REPORT"]).write_text(json.dumps(seen), encoding="utf-8")
