"""Dagster's part of ``infra/deploy``: its instance is taken by Dagster itself, and is that of one machine elsewhere.

infra/dagster.yaml       concurrency: {runs: {max_concurrent_runs: 2}}
a cluster's              the same, and storage, run_launcher, compute_logs, local_artifact_storage
"""

from __future__ import annotations

import pytest
import yaml

from tests.project.deployed import DEPLOY, PROJECT, containers, image, instance, leaves


def test_the_instance_is_that_of_one_machine_but_for_storage_and_launcher() -> None:
    here, there = yaml.safe_load((PROJECT / "infra" / "dagster.yaml").read_text()), instance()
    here.pop("run_launcher")
    here.pop("event_log_storage")
    assert {name: there.get(name) for name in here} == here
    assert there.keys() - here.keys() == {"storage", "run_launcher", "compute_logs", "local_artifact_storage"}


def test_dagster_takes_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster import Shape
    from dagster._config import process_config
    from dagster._core.instance.config import dagster_instance_config_schema

    for _, name in (one for one in leaves(instance()["storage"]) if one[0][-1] == "env"):
        monkeypatch.setenv(name, "x")
    checked = process_config(Shape(dagster_instance_config_schema()), instance())
    assert checked.success, checked.errors


def test_values_of_the_chart_start_what_the_manifests_start() -> None:
    values = yaml.safe_load((DEPLOY / "values.yaml").read_text())
    (code,) = values["dagster-user-deployments"]["deployments"]
    assert f"{code['image']['repository']}:{code['image']['tag']}" == image()
    assert code["port"] == 4000 and code["labels"] == {"rivermeet/part": "code"}
    args = containers()["rivermeet-code/code"]["args"]
    assert code["dagsterApiGrpcArgs"] == args[3:7]
    launcher = values["runLauncher"]["config"]["k8sRunLauncher"]
    assert launcher["labels"] == instance()["run_launcher"]["config"]["labels"]
    assert {values[one]["labels"]["rivermeet/part"] for one in ("dagsterWebserver", "dagsterDaemon")} == {
        "web",
        "daemon",
    }
    assert launcher["resources"] == instance()["run_launcher"]["config"]["resources"]
