"""docker-compose.yml: that it is one, and that what it names exists."""

import re
import subprocess
import sys
from itertools import combinations
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from service.cli.main import SUBCOMMANDS
from service.settings import Settings
from tests.skeleton.compose import binds, compose, published, started, variables
from tests.skeleton.project import ROOT, tracked_files

PROFILES = {"re-embed", "milvus", "monitoring", "training", "training-cuda", "export"}
OF_THE_USER = {"data", "runs"}  # what training reads and writes; not in the repository
MONITORING = ROOT / "docker" / "monitoring"
DOCUMENTS = [ROOT / "README.md", ROOT / "docker-compose.yml", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(
    r"(?P<variables>(?:\w+=\S+ )*)docker compose(?P<profiles>(?: --profile [\w-]+)*) (?:up|run)"
    r"(?: --?[\w-]+)*(?: (?P<service>[a-z-]+))?"
)


def read_yaml(path: str) -> Any:
    return yaml.safe_load((MONITORING / path).read_text(encoding="utf-8"))


def dockerfile_says(name: str, instruction: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return [line.removeprefix(instruction).strip() for line in lines if line.startswith(f"{instruction} ")]


def test_the_file_is_what_the_compose_specification_describes() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, ROOT / "docker-compose.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_profile_is_known_here() -> None:
    assert {
        profile for service in compose()["services"].values() for profile in service.get("profiles", [])
    } == PROFILES


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


def test_re_embedding_runs_once_on_the_documents_of_the_service() -> None:
    services = compose()["services"]
    service, once = services["service"], services["re-embed"]
    own = {"profiles", "command", "ports", "healthcheck", "restart"}
    assert {name: value for name, value in once.items() if name not in own} == {
        name: value for name, value in service.items() if name not in own
    }
    assert (once["profiles"], once["restart"], published(once)) == (["re-embed"], "no", [])
    assert " ".join(once["command"]) in SUBCOMMANDS


def test_a_milvus_address_selects_its_packages_and_image() -> None:
    plain = compose()["services"]["service"]
    milvus = compose(CROSSLET_INDEX="milvus://milvus:19530")["services"]["service"]
    assert plain["environment"]["CROSSLET_INDEX"] == "embedded"
    assert milvus["environment"]["CROSSLET_INDEX"] == "milvus://milvus:19530"
    assert (plain["build"]["args"]["LOCK"] or "service.txt", milvus["build"]["args"]["LOCK"]) == (
        "service.txt",
        "milvus.txt",
    )
    assert plain["image"] != milvus["image"]
    assert '"requirements/${LOCK:-service.txt}"' in (ROOT / "docker/service.Dockerfile").read_text(encoding="utf-8")


def test_everything_that_is_mounted_from_the_checkout_is_in_it() -> None:
    tracked = {path.relative_to(ROOT) for path in tracked_files()}
    folders = {parent for path in tracked for parent in path.parents}
    mounted = {source for service in compose()["services"].values() for source, _, _ in binds(service)}
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


def test_published_ports_are_those_that_the_containers_listen_on() -> None:
    services = compose()["services"]
    (exposed,) = dockerfile_says("docker/service.Dockerfile", "EXPOSE")
    assert [inside for _, _, inside in published(services["service"])] == [int(exposed)]
    assert f"CROSSLET_PORT={exposed} " in "".join(dockerfile_says("docker/service.Dockerfile", "ENV"))
    # 9090 and 3000 are what Prometheus and Grafana listen on unless told otherwise, and nothing here tells them.
    assert [inside for _, _, inside in published(services["prometheus"])] == [9090]
    assert "command" not in services["prometheus"]
    assert [inside for _, _, inside in published(services["grafana"])] == [3000]
    assert not [name for name in services["grafana"]["environment"] if name.startswith("GF_SERVER_")]


def test_prometheus_asks_the_service_and_grafana_asks_prometheus() -> None:
    services = compose()["services"]
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


def test_files_that_monitoring_names_are_mounted() -> None:
    services = compose()["services"]
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


def test_monitoring_listens_locally_and_reports_to_nobody() -> None:
    services = compose()["services"]
    assert {address for name in ("prometheus", "grafana") for address, _, _ in published(services[name])} == {
        "127.0.0.1"
    }
    told = services["grafana"]["environment"]
    off = ["AUTH_ANONYMOUS_ENABLED", "ANALYTICS_REPORTING_ENABLED", "ANALYTICS_CHECK_FOR_UPDATES"]
    off += ["ANALYTICS_CHECK_FOR_PLUGIN_UPDATES", "NEWS_NEWS_FEED_ENABLED", "PLUGINS_PREINSTALL_AUTO_UPDATE"]
    assert {name: told[f"GF_{name}"] for name in off} == dict.fromkeys(off, "false")
    assert told["GF_PLUGINS_PREINSTALL_DISABLED"] == "true"
    assert services["minio"]["environment"]["MINIO_UPDATE"] == "off"


def test_images_of_others_are_pinned_to_a_version() -> None:
    images = [service["image"] for service in compose()["services"].values() if "build" not in service]
    assert len(images) == 5
    assert [image for image in images if not re.search(r":(v?\d+\.\d+\.\d+|RELEASE\.\d[\w-]+)$", image)] == []


def test_the_memory_budget_is_a_tenth_below_the_limit() -> None:
    service = compose()["services"]["service"]
    limit_bytes = int(service["mem_limit"].removesuffix("m")) * 2**20
    assert limit_bytes == 512 * 2**20
    share = int(service["environment"]["CROSSLET_MEMORY_BUDGET"]) / limit_bytes
    assert 0.88 < share <= 0.9


def test_no_mount_hides_the_default_model_of_the_image() -> None:
    service = compose()["services"]["service"]
    assert service["environment"]["CROSSLET_MODEL"] is None  # the shell's; unset there, it is unset in the container
    assert "CROSSLET_MODEL" not in "".join(dockerfile_says("docker/service.Dockerfile", "ENV"))
    installed = PurePosixPath("/opt/crosslet")
    assert f"--from=build {installed} {installed}" in dockerfile_says("docker/service.Dockerfile", "COPY")
    targets = {PurePosixPath(target) for volume in service["volumes"] for target in [volume.split(":")[1]]}
    assert not targets & {installed, *installed.parents}


def test_an_artifact_has_one_path_outside_in_export_and_service() -> None:
    services = compose()["services"]
    service, export = services["service"], services["export"]
    assert service["working_dir"] == export["working_dir"] == "/"
    assert binds(service) == [("models", "/models", True)]
    assert sorted(binds(export)) == [("models", "/models", False), ("runs", "/runs", True)]


def test_export_runs_in_the_training_image_as_the_owner() -> None:
    services = compose()["services"]
    training, export = services["training"], services["export"]
    assert (export["image"], export["build"], export["user"]) == (
        training["image"],
        training["build"],
        training["user"],
    )
    assert export["profiles"] == ["export"]
    written = {target: source for source, target, _ in binds(training)}["/out"]
    assert written in {source for source, _, _ in binds(export)}


def test_documented_commands_name_what_the_file_has() -> None:
    commands = [match for path in DOCUMENTS for match in COMMAND.finditer(path.read_text(encoding="utf-8"))]
    assert len(commands) > 10
    services = compose()["services"]
    for command in commands:
        assert {assigned.split("=")[0] for assigned in command["variables"].split()} <= variables(), command[0]
        assert set(command["profiles"].replace("--profile", "").split()) <= PROFILES, command[0]
        assert command["service"] is None or command["service"] in services, command[0]
