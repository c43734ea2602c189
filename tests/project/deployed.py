"""What ``infra/deploy`` renders to, and the pods that Spark and Dagster make by it: ``test_deploy.py`` judges them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "infra" / "deploy"
KUBECTL = Path(sys.executable).with_name("kubectl")
Manifest = dict[str, Any]


@cache
def rendered() -> list[Manifest]:
    done = subprocess.run([KUBECTL, "kustomize", DEPLOY], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def of_kind(kind: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in rendered() if one["kind"] == kind}


def executor() -> Manifest:
    """What Spark makes executors of, as the engine reads it."""
    return yaml.safe_load(of_kind("ConfigMap")["rivermeet-engine"]["data"]["executor.yaml"])


def spark_conf() -> dict[str, str]:
    lines = (DEPLOY / "engine" / "spark.conf").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def run_job(folder: Path) -> Manifest:
    """The Job that dagster-k8s makes of a run, by our instance's configuration of its launcher."""
    from dagster import DagsterRun
    from dagster._config import process_config
    from dagster_k8s import K8sRunLauncher
    from dagster_k8s.container_context import K8sContainerContext
    from dagster_k8s.job import construct_dagster_k8s_job
    from kubernetes.client import ApiClient

    # Its client wants to be configured, and is asked nothing.
    kubeconfig = folder / "kubeconfig"
    context = {"name": "none", "context": {"cluster": "none", "user": "none"}}
    cluster = {"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}
    users = [{"name": "none", "user": {}}]
    known = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "none"}
    kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **known}))
    given = {**instance()["run_launcher"]["config"], "load_incluster_config": False, "kubeconfig_file": str(kubeconfig)}
    checked = process_config({"launcher": K8sRunLauncher.config_type()}, {"launcher": given})
    assert checked.success, checked.errors
    launcher = K8sRunLauncher(**(checked.value or {})["launcher"])
    context = K8sContainerContext.create_for_run(DagsterRun(job_name="invoice"), launcher, include_run_tags=True)
    job = construct_dagster_k8s_job(
        context.get_k8s_job_config(job_image=image(), run_launcher=launcher),
        args=["dagster", "api", "execute_run"],
        job_name="run",
        user_defined_k8s_config=context.run_k8s_config,
    )
    made: Any = ApiClient().sanitize_for_serialization(job)
    return made


def instance() -> Manifest:
    return yaml.safe_load(of_kind("ConfigMap")["rivermeet-dagster"]["data"]["dagster.yaml"])


def image() -> str:
    return of_kind("Deployment")["rivermeet-code"]["spec"]["template"]["spec"]["containers"][0]["image"]


def pods() -> dict[str, Manifest]:
    return {name: one["spec"]["template"]["spec"] for name, one in of_kind("Deployment").items()}


def containers() -> dict[str, Manifest]:
    return {f"{pod}/{one['name']}": one for pod, spec in pods().items() for one in spec["containers"]}


def all_pods(folder: Path) -> dict[str, Manifest]:
    """Those of Deployments, and those that Spark and Dagster make."""
    return {**pods(), "executor": executor()["spec"], "run": run_job(folder)["spec"]["template"]["spec"]}


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from leaves(value, (*path, str(name)))
    elif isinstance(node, list):
        for value in node:
            yield from leaves(value, path)
    else:
        yield path, node
