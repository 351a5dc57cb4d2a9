"""docker/kubernetes: manifests that the API's schemas take, and that say what the service and the image are."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.settings import Settings
from tests.skeleton.compose import compose
from tests.skeleton.project import ROOT

FOLDER = ROOT / "docker" / "kubernetes"
VERSIONS = ("1.31", kubernetes_validate.latest_version())
UNITS = {"Mi": 2**20, "Gi": 2**30}


def manifests() -> list[dict[str, Any]]:
    """Return every manifest of the folder."""
    files = sorted(FOLDER.glob("*.yaml"))
    return [manifest for file in files for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def of_kind(kind: str) -> dict[str, Any]:
    """Return the only manifest of a kind."""
    (found,) = [manifest for manifest in manifests() if manifest["kind"] == kind]
    return found


@pytest.fixture
def pod() -> dict[str, Any]:
    """What a pod of encoders is made of."""
    pod: dict[str, Any] = of_kind("Deployment")["spec"]["template"]["spec"]
    return pod


def size_bytes(quantity: str) -> int:
    """Return the bytes of a quantity such as 750Mi."""
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"])
def test_the_published_schemas_take_each_manifest(kind: str, version: str) -> None:
    kubernetes_validate.validate(of_kind(kind), version, strict=True)


def test_every_variable_is_a_setting(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    given = {one["name"]: one.get("value") for one in container["env"]}
    named = {name.removeprefix("CROSSLET_").lower() for name in given}
    assert named <= Settings.model_fields.keys()
    values = {name.removeprefix("CROSSLET_").lower(): value for name, value in given.items() if value is not None}
    settings = Settings.model_validate(values)
    limit = size_bytes(container["resources"]["limits"]["memory"])
    assert settings.memory_budget <= 0.9 * limit
    assert pod["terminationGracePeriodSeconds"] > settings.drain_delay_s + settings.shutdown_timeout_s
    assert settings.workers == int(container["resources"]["requests"]["cpu"])
    assert {port["containerPort"] for port in container["ports"]} == {Settings().port, settings.metrics_port}
    scraped = of_kind("Deployment")["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    assert int(scraped) == settings.metrics_port
    assert settings.index == f"milvus://{of_kind('Milvus')['metadata']['name']}-milvus:19530"


def test_every_probe_asks_a_route(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    paths = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    source = (ROOT / "service" / "api" / "routes" / "health.py").read_text(encoding="utf-8")
    assert paths == {"/ready", "/health"}
    assert all(f'"{path}"' in source for path in paths)


def test_users_and_images_are_those_of_the_project(pod: dict[str, Any]) -> None:
    dockerfile = (ROOT / "docker" / "service.Dockerfile").read_text(encoding="utf-8")
    user = pod["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in dockerfile
    composed = compose(CROSSLET_INDEX="milvus://milvus:19530")["services"]
    assert pod["containers"][0]["image"] == composed["service"]["image"]
    assert f"docker.io/{of_kind('Milvus')['spec']['components']['image']}" == composed["milvus"]["image"]
    mounted = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {"/tmp", "/data"}  # the root is read-only
