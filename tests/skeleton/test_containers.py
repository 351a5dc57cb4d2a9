import json
import re
import subprocess
from fnmatch import fnmatch

import pytest

from service.settings import Settings
from tests.skeleton.compose import compose, started, variables
from tests.skeleton.project import ROOT

DOCKERFILES = ["service.Dockerfile", "training.Dockerfile"]
# Compose and the image say these: another value would need a volume or another port in the file as well.
OF_THE_CONTAINER = {"host", "port", "data"}


def instructions(name: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of a Dockerfile, continued lines joined."""
    text = (ROOT / "docker" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_compose_serves_locally_and_keeps_documents_in_a_volume() -> None:
    service = compose()["services"]["service"]
    assert service["ports"] == ["127.0.0.1:8080:8080"]
    assert "documents:/data" in service["volumes"]
    assert "documents" in compose()["volumes"]
    assert "profiles" not in service
    elsewhere = compose(CROSSLET_BIND="0.0.0.0", CROSSLET_PORT="80")["services"]["service"]
    assert elsewhere["ports"] == ["0.0.0.0:80:8080"]


def test_training_is_a_profile_that_mounts_data_and_runs() -> None:
    training = compose()["services"]["training"]
    assert training["profiles"] == ["training"]
    assert training["volumes"] == ["./data:/data:ro", "./runs:/out"]


def test_gpu_training_has_its_own_image_and_asks_for_devices() -> None:
    services = compose()["services"]
    training, cuda = services["training"], services["training-cuda"]
    assert cuda["build"]["args"]["TORCH"] == "cuda"
    assert "TORCH" not in training["build"]["args"]
    assert cuda["image"] != training["image"]
    assert cuda["profiles"] != training["profiles"]
    (device,) = cuda["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert cuda["volumes"] == training["volumes"]


def test_training_arguments_replace_only_the_configuration() -> None:
    steps = dict(instructions("training.Dockerfile"))
    assert json.loads(steps["ENTRYPOINT"]) == ["training/run.sh", "--data", "/data", "--out", "/out"]
    assert json.loads(steps["CMD"]) == ["--config", "training/configs/default.yaml"]


def test_every_image_is_told_its_revision() -> None:
    built = [service["build"] for service in compose()["services"].values() if "build" in service]
    assert {build["args"]["REVISION"] for build in built} == {"unknown"}
    told = [service["build"] for service in compose(REVISION="abc")["services"].values() if "build" in service]
    assert {build["args"]["REVISION"] for build in told} == {"abc"}
    command = subprocess.run(["make", "-n", "image"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--build-arg REVISION=" in command


def test_every_setting_reaches_the_service_from_shell_or_file() -> None:
    environment = compose()["services"]["service"]["environment"]
    assert {
        key.removeprefix("CROSSLET_").lower() for key in environment
    } == Settings.model_fields.keys() - OF_THE_CONTAINER
    assert environment.keys() <= variables()
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "**/.env" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_milvus_starts_before_the_service_without_ports() -> None:
    services = compose()["services"]
    assert started({"milvus"}).keys() - started(set()).keys() == {"milvus", "etcd", "minio"}
    assert services["service"]["depends_on"] == {"milvus": {"condition": "service_healthy", "required": False}}
    for name in ("milvus", "etcd", "minio"):
        assert "ports" not in services[name]
        assert services[name]["healthcheck"]["test"][0] == "CMD"
        volume, _ = services[name]["volumes"][0].split(":")
        assert volume in compose()["volumes"]


def test_every_container_has_an_init_that_passes_signals_on() -> None:
    assert {service["init"] for service in compose()["services"].values()} == {True}


def test_the_training_container_knows_its_revision() -> None:
    steps = instructions("training.Dockerfile")
    assert any(name == "ENV" and "CROSSLET_REVISION=$REVISION" in value for name, value in steps)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_any_user_can_read_what_was_copied_in(name: str) -> None:
    assert any(instruction == "RUN" and "chmod -R a+rX" in value for instruction, value in instructions(name))


def test_compose_builds_from_dockerfiles_that_exist() -> None:
    named = {service["build"]["dockerfile"] for service in compose()["services"].values() if "build" in service}
    assert named == {f"docker/{name}" for name in DOCKERFILES}
    assert all((ROOT / name).is_file() for name in named)


def test_every_setting_named_in_the_containers_exists() -> None:
    text = "".join(value for name, value in instructions("service.Dockerfile") if name == "ENV")
    named = set(re.findall(r"CROSSLET_(\w+)=", text))
    named |= {name.removeprefix("CROSSLET_") for name in compose()["services"]["service"]["environment"]}
    assert named
    assert {name.lower() for name in named} - Settings.model_fields.keys() == set()


def test_the_grace_period_outlasts_the_drain() -> None:
    grace_s = int(compose()["services"]["service"]["stop_grace_period"].removesuffix("s"))
    fields = Settings.model_fields
    assert grace_s > fields["drain_delay_s"].default + fields["shutdown_timeout_s"].default


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_does_not_run_as_root_and_starts_in_exec_form(name: str) -> None:
    steps = instructions(name)
    (user,) = [value for instruction, value in steps if instruction == "USER"]
    assert user == "10001:10001"
    (entrypoint,) = [value for instruction, value in steps if instruction == "ENTRYPOINT"]
    assert entrypoint.startswith("[")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_every_copied_path_exists_and_passes_the_dockerignore(name: str) -> None:
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    ]
    copies = [value.split()[:-1] for instruction, value in instructions(name) if instruction == "COPY"]
    sources = [source.replace("${TORCH}", "cpu") for copy in copies for source in copy if copy[0][:2] != "--"]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not any(fnmatch(source, f"{path}*") for path in allowed)] == []
