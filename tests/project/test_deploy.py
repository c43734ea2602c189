"""The manifests of ``infra/deploy``, held against Kubernetes' schemas and our own rules; no cluster is asked.

| rule | a counter-example |
|---|---|
| a schema of Kubernetes knows every field | ``replicaz: 1`` |
| secrets are references | ``env: [{name: DB_PASSWORD, value: hunter2}]`` |
| a container has requests, limits, a probe, and no rights | ``image: rivermeet`` and nothing else |
| an image has a tag that stays | ``rivermeet:latest`` |
| a door is open to those who need it | a policy for a port on which nobody listens |
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from rivermeet.infra.engine import conf
from rivermeet.infra.printable import redact
from rivermeet.infra.settings import Settings
from tests.project.deployed import (
    DEPLOY,
    PROJECT,
    Manifest,
    all_pods,
    containers,
    executor,
    image,
    leaves,
    of_kind,
    rendered,
    run_job,
    spark_conf,
)

KUBERNETES = "1.37"
SECRET = re.compile(r"token|secret|passw|key$|credential", re.IGNORECASE)
REFERENCES = {"rivermeet-engine", "rivermeet-engine-tls", "rivermeet-spark", "rivermeet-postgres"}
OPTIONAL = {"rivermeet-store", "rivermeet-sources"}
"""Secrets that a pod starts without."""


def literals(manifest: Manifest) -> list[str]:
    """Secrets that a manifest holds: a Secret, an environment variable with a value, a URL with a password."""
    found = ["a Secret"] if manifest.get("kind") == "Secret" else []
    for path, value in leaves(manifest):
        if isinstance(value, str) and redact(value) != value:
            found.append("/".join(path))
    for env in _environments(manifest):
        found += [name for name, value in env.items() if value and SECRET.search(name) and not value.startswith("/")]
    return found


def _environments(node: Any) -> Iterator[dict[str, str]]:
    if isinstance(node, dict):
        if isinstance(node.get("env"), list):
            yield {one["name"]: one.get("value", "") for one in node["env"]}
        if node.get("kind") == "ConfigMap":
            yield {name: text for name, text in node["data"].items() if "\n" not in text}
        for value in node.values():
            yield from _environments(value)
    elif isinstance(node, list):
        for value in node:
            yield from _environments(value)


def lacks(container: Manifest) -> list[str]:
    """What a container of ours has to have, and this one has not."""
    resources, rights = container.get("resources", {}), container.get("securityContext", {})
    wanted = {
        "requests": resources.get("requests", {}).keys() >= {"cpu", "memory"},
        "limits": resources.get("limits", {}).keys() >= {"cpu", "memory"},
        "livenessProbe": "livenessProbe" in container,
        "readinessProbe": "readinessProbe" in container or "ports" not in container,
        **_closed(rights),
    }
    return [name for name, there in wanted.items() if not there]


def _closed(rights: Manifest) -> dict[str, bool]:
    return {
        "allowPrivilegeEscalation": rights.get("allowPrivilegeEscalation") is False,
        "readOnlyRootFilesystem": rights.get("readOnlyRootFilesystem") is True,
        "capabilities": rights.get("capabilities", {}).get("drop") == ["ALL"],
    }


def test_schemas_know_every_field(tmp_path: Path) -> None:
    for manifest in [*rendered(), executor(), run_job(tmp_path)]:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_field_that_no_schema_knows_is_found() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"portz": []}}
    with pytest.raises(kubernetes_validate.ValidationError, match="portz"):
        kubernetes_validate.validate(service, KUBERNETES, strict=True)


def test_secrets_are_references(tmp_path: Path) -> None:
    values = yaml.safe_load((DEPLOY / "values.yaml").read_text())
    held = {str(n): literals(one) for n, one in enumerate([*rendered(), executor(), run_job(tmp_path), values])}
    assert {n: found for n, found in held.items() if found} == {}
    named = {
        value
        for spec in all_pods(tmp_path).values()
        for path, value in leaves(spec)
        if path[-2:] in {("secretRef", "name"), ("secretKeyRef", "name")} or path[-1] == "secretName"
    }
    assert named == REFERENCES | OPTIONAL
    page = (PROJECT / "docs" / "scale.md").read_text()
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Secret", "data": {}},
        {"containers": [{"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}]},
        {"kind": "ConfigMap", "data": {"STORE": "s3a://key:hunter2@lake/river"}},
        {"kind": "ConfigMap", "data": {"AWS_SECRET_ACCESS_KEY": "hunter2"}},
    ],
)
def test_a_secret_would_be_found(manifest: Manifest) -> None:
    assert literals(manifest)


@pytest.mark.parametrize("name", containers())
def test_a_container_has_bounds_probes_and_no_rights(name: str) -> None:
    assert lacks(containers()[name]) == []


def test_what_a_container_lacks_is_found() -> None:
    assert len(lacks({"ports": [{"containerPort": 1}]})) == 7


def test_no_pod_runs_as_root_or_shows_a_token_that_it_does_not_need(tmp_path: Path) -> None:
    for name, spec in all_pods(tmp_path).items():
        user = spec["securityContext"]
        assert (user["runAsNonRoot"], user["runAsUser"]) == (True, 10001), name
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert all(all(_closed(one["securityContext"]).values()) for one in spec["containers"]), name
        asks = spec.get("automountServiceAccountToken") is not False
        assert asks == (name in {"rivermeet-engine", "rivermeet-web", "rivermeet-daemon"}), name


def test_all_pods_run_one_image_with_a_tag_that_stays() -> None:
    version = re.search(r'^version = "(.+)"', (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    env = [value for one in _environments(rendered()) for n, value in one.items() if n.endswith("IMAGE")]
    assert version and {image()} == {one["image"] for one in containers().values()} == {*env}
    assert len(env) == 2 and image().endswith(f":{version[1]}")
    (base,) = re.findall(r"^FROM (\S+)", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", base)


def test_the_image_runs_as_the_user_of_the_pods_and_holds_no_home() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert re.findall(r"^USER (.+)", text, re.MULTILINE) == ["10001:10001"]
    ignored = (PROJECT / ".dockerignore").read_text().split()
    assert {".git", ".venv", ".jars", ".rivermeet", ".cluster"} <= {*ignored}
    assert not SECRET.search("".join(re.findall(r"^(?:ENV|ARG) (.+)", text, re.MULTILINE)))


def test_every_setting_is_one_of_ours() -> None:
    ours = {name for name in Settings.from_env({}).environ()}
    given = of_kind("ConfigMap")["rivermeet"]["data"]
    set_somewhere = {name for one in _environments(rendered()) for name in one if name.startswith("RIVERMEET_")}
    assert set_somewhere and set_somewhere <= ours
    settings = Settings.from_env(given)
    assert settings.environ()["RIVERMEET_TABLES"] == given["RIVERMEET_TABLES"]


def test_the_driver_has_the_settings_that_ours_has() -> None:
    assert spark_conf().items() >= conf.DRIVER.items()
    ours = conf.server(Settings.from_env({}), [])
    assert spark_conf()["spark.scheduler.mode"] == ours["spark.scheduler.mode"]
    # Settings of single sessions are the client's to set.
    assert not spark_conf().keys() & conf.SESSION.keys()


def test_ports_match() -> None:
    spark, engine = spark_conf(), containers()["rivermeet-engine/spark"]
    ports = {p["name"]: p["containerPort"] for one in containers().values() for p in one.get("ports", [])}
    assert ports == {"driver": 7078, "blocks": 7079, "door": 15443, "grpc": 4000}
    assert int(spark["spark.driver.port"]) == ports["driver"]
    assert int(spark["spark.driver.blockManager.port"]) == int(spark["spark.blockManager.port"]) == ports["blocks"]
    door = (DEPLOY / "engine" / "door.conf").read_text()
    assert re.findall(r"listen (\d+)", door) == ["15443"]
    behind = f"{spark['spark.connect.grpc.binding.address']}:{spark['spark.connect.grpc.binding.port']}"
    assert re.findall(r"grpc_pass grpc://(\S+);", door) == [behind]
    assert behind.replace(":", "/") in engine["readinessProbe"]["exec"]["command"][-1]
    for service in of_kind("Service").values():
        assert all(ports[one["targetPort"]] == one["port"] for one in service["spec"]["ports"])
    address = of_kind("ConfigMap")["rivermeet"]["data"]["RIVERMEET_ENGINE"]
    assert address.startswith("sc://rivermeet-engine:15443/") and "rivermeet-engine" in of_kind("Service")
    workspace = yaml.safe_load(of_kind("ConfigMap")["rivermeet-dagster"]["data"]["workspace.yaml"])
    page = (PROJECT / "docs" / "security.md").read_text()
    assert [port for port in (*ports.values(), 15002, 3000, 3001) if f" {port}" not in page] == []
    (place,) = [one["grpc_server"] for one in workspace["load_from"]]
    assert (place["host"], place["port"]) == ("rivermeet-code", ports["grpc"])
    assert containers()["rivermeet-code/code"]["args"][-1] == str(ports["grpc"])


def test_doors_are_open_to_those_who_need_them(tmp_path: Path) -> None:
    parts = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in of_kind("Deployment").items()}
    labels = [*parts.values(), executor()["metadata"]["labels"]]
    labels.append(run_job(tmp_path)["spec"]["template"]["metadata"]["labels"])
    known = {one["rivermeet/part"] for one in labels}
    opened = {
        (policy["spec"]["podSelector"]["matchLabels"]["rivermeet/part"], port["port"]): sorted(_who(rule))
        for policy in of_kind("NetworkPolicy").values()
        for rule in policy["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    assert opened == {
        ("engine", 15443): ["code", "run"],
        ("engine", 7078): ["executor"],
        ("engine", 7079): ["executor"],
        ("executor", 7079): ["engine", "executor"],
        ("code", 4000): ["daemon", "web"],
    }
    assert {who for rule in opened.values() for who in rule} | {part for part, _ in opened} == known
    closed = of_kind("NetworkPolicy")["rivermeet-closed"]["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress"]}


def _who(rule: Manifest) -> list[str]:
    (peer,) = rule["from"]
    selector = peer["podSelector"]
    return selector.get("matchLabels", {}).values() or selector["matchExpressions"][0]["values"]


def test_the_entrypoint_starts_what_it_is_asked_for(tmp_path: Path) -> None:
    shown = tmp_path / "tini"
    shown.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": "/spark", "SPARK_EXECUTOR_MEMORY": "4g"}
    env |= {f"SPARK_JAVA_OPT_{n}": f"-Dn={n} x" for n in range(11)}
    for name in ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP"):
        env[f"SPARK_{name}"] = name
    env |= {"SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod"}

    def ran(*arguments: str) -> list[str]:
        done = subprocess.run(
            [DEPLOY / "entrypoint.sh", *arguments], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    assert ran("nginx", "-c", "/a b") == ["-s", "--", "nginx", "-c", "/a b"]
    command = ran("executor")
    assert command[:14] == ["-s", "--", "java", *(f"-Dn={n} x" for n in range(11))]
    assert command[14:19] == ["-Xms4g", "-Xmx4g", "-cp", "/spark/conf:/spark/jars/*", command[18]]
    assert command[18].endswith("KubernetesExecutorBackend") and command[-2:] == ["--podName", "pod"]
