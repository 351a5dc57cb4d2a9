"""docker-compose.yml and the Dockerfiles: that what they name exists and fits together."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from itertools import combinations
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from service.cli.main import SUBCOMMANDS
from service.settings import Settings
from tests.skeleton.compose import binds, compose, published, started, variables
from tests.skeleton.project import ROOT, tracked_files

DOCKERFILES = ["service.Dockerfile", "training.Dockerfile"]
PROFILES = {"re-embed", "milvus", "monitoring", "training", "training-cuda", "export"}
# Compose and the image say these: another value would need a volume or another port in the file as well.
OF_THE_CONTAINER = {"host", "port", "data"}
OF_THE_USER = {"data", "runs"}  # what training reads and writes; not in the repository
MONITORING = ROOT / "docker" / "monitoring"
DOCUMENTS = [ROOT / "README.md", ROOT / "docker-compose.yml", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(
    r"(?P<variables>(?:\w+=\S+ )*)docker compose(?P<profiles>(?: --profile [\w-]+)*) (?:up|run)"
    r"(?: --?[\w-]+)*(?: (?P<service>[a-z-]+))?"
)


def read_yaml(path: str) -> Any:
    return yaml.safe_load((MONITORING / path).read_text(encoding="utf-8"))


def instructions(name: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of a Dockerfile, continued lines joined."""
    text = (ROOT / "docker" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in lines]


def dockerfile_says(name: str, instruction: str) -> list[str]:
    return [arguments for found, arguments in instructions(name) if found == instruction]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the file, without an environment."""
    return compose()["services"]


def test_the_file_is_what_the_compose_specification_describes() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, ROOT / "docker-compose.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_profile_is_known_here(services: dict[str, Any]) -> None:
    assert {profile for service in services.values() for profile in service.get("profiles", [])} == PROFILES


@pytest.mark.parametrize("count", range(len(PROFILES) + 1))
def test_no_two_services_of_any_profiles_are_on_one_port(count: int) -> None:
    for profiles in combinations(sorted(PROFILES), count):
        services = started(set(profiles)).values()
        ports = [outside for service in services for _, outside, _ in published(service)]
        assert len(ports) == len(set(ports)), profiles


def test_whichever_profile_is_up_one_service_answers() -> None:
    for profile in PROFILES:
        built = {
            name: service["build"]["dockerfile"]
            for name, service in started({profile}).items()
            if "build" in service and service.get("restart") != "no"  # else it ends
        }
        assert [name for name, dockerfile in built.items() if dockerfile == "docker/service.Dockerfile"] == ["service"]


def test_re_embedding_runs_once_on_the_documents_of_the_service(services: dict[str, Any]) -> None:
    service, once = services["service"], services["re-embed"]
    own = {"profiles", "command", "ports", "healthcheck", "restart"}
    assert {name: value for name, value in once.items() if name not in own} == {
        name: value for name, value in service.items() if name not in own
    }
    assert (once["profiles"], once["restart"], published(once)) == (["re-embed"], "no", [])
    assert " ".join(once["command"]) in SUBCOMMANDS


def test_extras_select_packages_and_image(services: dict[str, Any]) -> None:
    plain = services["service"]
    milvus = compose(CROSSLET_INDEX="milvus://milvus:19530")["services"]["service"]
    asked = {"CROSSLET_MCP": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    asked |= {"CROSSLET_TOKEN_IDS": "cl100k_base"}
    all_ = compose(CROSSLET_INDEX="milvus://milvus:19530", **asked)["services"]["service"]
    assert plain["environment"]["CROSSLET_INDEX"] == "embedded"
    assert milvus["environment"]["CROSSLET_INDEX"] == "milvus://milvus:19530"
    assert [one["build"]["args"]["LOCK"].split() for one in (plain, milvus, all_)] == [
        ["service.txt"],
        ["service.txt", "milvus.txt"],
        ["service.txt", "milvus.txt", "mcp.txt", "traces.txt", "openai-ids.txt"],
    ]
    assert len({one["image"] for one in (plain, milvus, all_)}) == 3
    dockerfile = (ROOT / "docker/service.Dockerfile").read_text(encoding="utf-8")
    assert "ARG LOCK=service.txt\n" in dockerfile
    assert "for lock in $LOCK;" in dockerfile


def test_everything_that_is_mounted_from_the_checkout_is_in_it(services: dict[str, Any]) -> None:
    tracked = {path.relative_to(ROOT) for path in tracked_files()}
    folders = {parent for path in tracked for parent in path.parents}
    mounted = {source for service in services.values() for source, _, _ in binds(service)}
    assert {"models", "docker/monitoring/prometheus.yml"} <= mounted
    there = {str(path) for path in tracked | folders}
    assert mounted - there == OF_THE_USER


def test_every_named_volume_config_and_service_is_described() -> None:
    content = compose()
    named = [volume.split(":")[0] for service in content["services"].values() for volume in service.get("volumes", [])]
    assert {volume for volume in named if volume[0] not in "./"} == content["volumes"].keys()
    configs = [config["source"] for service in content["services"].values() for config in service.get("configs", [])]
    assert set(configs) == content["configs"].keys()
    needed = {other for service in content["services"].values() for other in service.get("depends_on", [])}
    assert needed <= content["services"].keys()


def test_a_service_needs_none_that_its_profile_does_not_start() -> None:
    for profile in PROFILES:
        services = started({profile})
        for name, service in services.items():
            needs = service.get("depends_on", {})
            optional = {other for other in needs if isinstance(needs, dict) and not needs[other].get("required", True)}
            assert set(needs) - optional <= services.keys(), name


def test_published_ports_are_those_that_the_containers_listen_on(services: dict[str, Any]) -> None:
    (exposed,) = dockerfile_says("service.Dockerfile", "EXPOSE")
    assert [inside for _, _, inside in published(services["service"])] == [int(exposed)]
    assert f"CROSSLET_PORT={exposed} " in "".join(dockerfile_says("service.Dockerfile", "ENV"))
    # 9090 and 3000 are what Prometheus and Grafana listen on unless told otherwise, and nothing here tells them.
    assert [inside for _, _, inside in published(services["prometheus"])] == [9090]
    assert "command" not in services["prometheus"]
    assert [inside for _, _, inside in published(services["grafana"])] == [3000]
    assert not [name for name in services["grafana"]["environment"] if name.startswith("GF_SERVER_")]


def test_prometheus_asks_the_service_and_grafana_asks_prometheus(services: dict[str, Any]) -> None:
    (job,) = read_yaml("prometheus.yml")["scrape_configs"]
    (static,) = job["static_configs"]
    (inside,) = [port for _, _, port in published(services["service"])]
    assert static["targets"] == [f"service:{inside}"]
    for given in ("", "search.example"):
        allowed = compose(CROSSLET_ALLOWED_HOSTS=given)["services"]["service"]["environment"]["CROSSLET_ALLOWED_HOSTS"]
        assert Settings(allowed_hosts=allowed).hosts() == {"service", "localhost", given} - {""}
    (source,) = read_yaml("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    (inside,) = [port for _, _, port in published(services["prometheus"])]
    assert source["url"] == f"http://prometheus:{inside}"
    assert source["jsonData"]["timeInterval"] == read_yaml("prometheus.yml")["global"]["scrape_interval"]


def test_files_that_monitoring_names_are_mounted(services: dict[str, Any]) -> None:
    mounted = {target for name in ("prometheus", "grafana") for _, target, _ in binds(services[name])}
    mounted |= {config["target"] for config in services["prometheus"]["configs"]}
    config = read_yaml("prometheus.yml")
    folder = PurePosixPath("/etc/prometheus")
    names = [*config["rule_files"], config["scrape_configs"][0]["authorization"]["credentials_file"]]
    assert {str(folder / name) for name in ["prometheus.yml", *names]} <= mounted
    (provider,) = read_yaml("grafana/provisioning/dashboards/crosslet.yml")["providers"]
    assert provider["options"]["path"] in mounted
    home = PurePosixPath(services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (MONITORING / "grafana/dashboards" / home.name).is_file()


def test_monitoring_listens_locally_and_reports_to_nobody(services: dict[str, Any]) -> None:
    assert {address for name in ("prometheus", "grafana") for address, _, _ in published(services[name])} == {
        "127.0.0.1"
    }
    told = services["grafana"]["environment"]
    off = ["AUTH_ANONYMOUS_ENABLED", "ANALYTICS_REPORTING_ENABLED", "ANALYTICS_CHECK_FOR_UPDATES"]
    off += ["ANALYTICS_CHECK_FOR_PLUGIN_UPDATES", "NEWS_NEWS_FEED_ENABLED", "PLUGINS_PREINSTALL_AUTO_UPDATE"]
    assert {name: told[f"GF_{name}"] for name in off} == dict.fromkeys(off, "false")
    assert told["GF_PLUGINS_PREINSTALL_DISABLED"] == "true"
    assert services["minio"]["environment"]["MINIO_UPDATE"] == "off"


def test_images_of_others_are_pinned_to_a_version(services: dict[str, Any]) -> None:
    images = [service["image"] for service in services.values() if "build" not in service]
    assert len(images) == 5
    assert [image for image in images if not re.search(r":(v?\d+\.\d+\.\d+|RELEASE\.\d[\w-]+)$", image)] == []


def test_the_memory_budget_is_a_tenth_below_the_limit(services: dict[str, Any]) -> None:
    service = services["service"]
    limit_bytes = int(service["mem_limit"].removesuffix("m")) * 2**20
    assert limit_bytes == 512 * 2**20
    share = int(service["environment"]["CROSSLET_MEMORY_BUDGET"]) / limit_bytes
    assert 0.88 < share <= 0.9


def test_no_mount_hides_the_default_model_of_the_image(services: dict[str, Any]) -> None:
    service = services["service"]
    assert service["environment"]["CROSSLET_MODEL"] is None  # the shell's; unset there, it is unset in the container
    assert "CROSSLET_MODEL" not in "".join(dockerfile_says("service.Dockerfile", "ENV"))
    installed = PurePosixPath("/opt/crosslet")
    assert f"--from=build {installed} {installed}" in dockerfile_says("service.Dockerfile", "COPY")
    targets = {PurePosixPath(target) for volume in service["volumes"] for target in [volume.split(":")[1]]}
    assert not targets & {installed, *installed.parents}


def test_an_artifact_has_one_path_outside_in_export_and_service(services: dict[str, Any]) -> None:
    service, export = services["service"], services["export"]
    assert service["working_dir"] == export["working_dir"] == "/"
    assert binds(service) == [("models", "/models", True)]
    assert sorted(binds(export)) == [("models", "/models", False), ("runs", "/runs", True)]


def test_export_runs_in_the_training_image_as_the_owner(services: dict[str, Any]) -> None:
    training, export = services["training"], services["export"]
    assert (export["image"], export["build"], export["user"]) == (
        training["image"],
        training["build"],
        training["user"],
    )
    assert export["profiles"] == ["export"]
    written = {target: source for source, target, _ in binds(training)}["/out"]
    assert written in {source for source, _, _ in binds(export)}


def test_documented_commands_name_what_the_file_has(services: dict[str, Any]) -> None:
    commands = [match for path in DOCUMENTS for match in COMMAND.finditer(path.read_text(encoding="utf-8"))]
    assert len(commands) > 10
    for command in commands:
        assert {assigned.split("=")[0] for assigned in command["variables"].split()} <= variables(), command[0]
        assert set(command["profiles"].replace("--profile", "").split()) <= PROFILES, command[0]
        assert command["service"] is None or command["service"] in services, command[0]


def test_compose_serves_locally_and_keeps_documents_in_a_volume(services: dict[str, Any]) -> None:
    service = services["service"]
    assert service["ports"] == ["127.0.0.1:8080:8080"]
    assert "documents:/data" in service["volumes"]
    assert "documents" in compose()["volumes"]
    assert "profiles" not in service
    elsewhere = compose(CROSSLET_BIND="0.0.0.0", CROSSLET_PORT="80")["services"]["service"]
    assert elsewhere["ports"] == ["0.0.0.0:80:8080"]


def test_training_is_a_profile_that_mounts_data_and_runs(services: dict[str, Any]) -> None:
    training = services["training"]
    assert training["profiles"] == ["training"]
    assert training["volumes"] == ["./data:/data:ro", "./runs:/out"]


def test_gpu_training_has_its_own_image_and_asks_for_devices(services: dict[str, Any]) -> None:
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


def test_every_image_is_told_its_revision(services: dict[str, Any]) -> None:
    built = [service["build"] for service in services.values() if "build" in service]
    assert {build["args"]["REVISION"] for build in built} == {"unknown"}
    assert {build["dockerfile"] for build in built} == {f"docker/{name}" for name in DOCKERFILES}
    told = [service["build"] for service in compose(REVISION="abc")["services"].values() if "build" in service]
    assert {build["args"]["REVISION"] for build in told} == {"abc"}
    command = subprocess.run(["make", "-n", "image"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--build-arg REVISION=" in command


def test_every_setting_reaches_the_service_from_shell_or_file(services: dict[str, Any]) -> None:
    environment = services["service"]["environment"]
    assert {
        key.removeprefix("CROSSLET_").lower() for key in environment if not key.startswith("OTEL_")
    } == Settings.model_fields.keys() - OF_THE_CONTAINER
    assert environment.keys() <= variables()
    said = "".join(dockerfile_says("service.Dockerfile", "ENV"))
    assert {name.lower() for name in re.findall(r"CROSSLET_(\w+)=", said)} <= Settings.model_fields.keys()
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "**/.env" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_milvus_starts_before_the_service_without_ports(services: dict[str, Any]) -> None:
    assert started({"milvus"}).keys() - started(set()).keys() == {"milvus", "etcd", "minio"}
    assert services["service"]["depends_on"] == {"milvus": {"condition": "service_healthy", "required": False}}
    for name in ("milvus", "etcd", "minio"):
        assert "ports" not in services[name]
        assert services[name]["healthcheck"]["test"][0] == "CMD"
        volume, _ = services[name]["volumes"][0].split(":")
        assert volume in compose()["volumes"]


def test_every_container_has_an_init_that_passes_signals_on(services: dict[str, Any]) -> None:
    assert {service["init"] for service in services.values()} == {True}


def test_the_training_container_knows_its_revision() -> None:
    assert "CROSSLET_REVISION=$REVISION" in "".join(dockerfile_says("training.Dockerfile", "ENV"))


@pytest.mark.parametrize("name", DOCKERFILES)
def test_any_user_can_read_what_was_copied_in(name: str) -> None:
    assert "chmod -R a+rX" in "".join(dockerfile_says(name, "RUN"))


def test_the_grace_period_outlasts_the_drain(services: dict[str, Any]) -> None:
    grace_s = int(services["service"]["stop_grace_period"].removesuffix("s"))
    fields = Settings.model_fields
    assert grace_s > fields["drain_delay_s"].default + fields["shutdown_timeout_s"].default


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_does_not_run_as_root_and_starts_in_exec_form(name: str) -> None:
    assert dockerfile_says(name, "USER") == ["10001:10001"]
    (entrypoint,) = dockerfile_says(name, "ENTRYPOINT")
    assert entrypoint.startswith("[")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_every_copied_path_exists_and_passes_the_dockerignore(name: str) -> None:
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    ]
    copies = [value.split()[:-1] for value in dockerfile_says(name, "COPY")]
    sources = [source.replace("${TORCH}", "cpu") for copy in copies for source in copy if copy[0][:2] != "--"]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not any(fnmatch(source, f"{path}*") for path in allowed)] == []
