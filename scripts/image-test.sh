#!/usr/bin/env bash
# Builds the service's image and tries it, without a Docker engine: on a Debian machine, as root, with
#   apt-get install buildah debootstrap
# Usage: image-test.sh [OPTION OF `buildah bud`...], e.g. --volume DIR:DIR:ro for a wheel folder that pip is told to use.
# IMAGE_TEST_LOCK="mcp.txt traces.txt openai-ids.txt milvus.txt" builds and tries it with these extras.
# Takes 5 minutes the first time. Writes under IMAGE_TEST_DIR (default: crosslet-image-test in the temporary folder):
# a stand-in for python:3.11-slim from Debian's packages, kept for the next run, and the built image (about 2 GB).
set -euo pipefail
cd "$(dirname "$0")/.."

work=${IMAGE_TEST_DIR:-${TMPDIR:-/tmp}/crosslet-image-test}
port=${IMAGE_TEST_PORT:-18080}
locks=${IMAGE_TEST_LOCK:-service.txt}
base=docker.io/library/python:3.11-slim
image=localhost/crosslet:image-test
builder=(buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs)

fail() { echo "image-test: $1" >&2; exit 1; }

mkdir -p -m 700 "$work"
[[ -O $work && ! -L $work ]] || fail "$work is not a folder of this user; name another in IMAGE_TEST_DIR"

for model in default reranker; do
    [[ -f models/$model/manifest.json ]] || fail "models/$model/manifest.json is missing; the image holds the bundled models"
done

make_base() {  # tag a minimal Debian with Python 3.11 as the image the Dockerfile names
    rm -rf "$work/base"  # half of one, where a run was stopped
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/base"
    ln -s /usr/bin/python3 "$work/base/usr/local/bin/python3"
    rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/*
    local container
    container=$("${builder[@]}" from scratch)
    "${builder[@]}" copy --quiet "$container" "$work/base" / > /dev/null
    "${builder[@]}" commit --quiet --rm "$container" "$base" > /dev/null
    rm -rf "$work/base"
}
"${builder[@]}" inspect --type image "$base" > /dev/null 2>&1 || make_base

# This machine's certificates and pip settings are lent to the build; they do not end up in the image.
lent=(--volume /etc/ssl/certs:/etc/ssl/certs:ro)
[[ -f /etc/pip.conf ]] && lent+=(--volume /etc/pip.conf:/etc/pip.conf:ro)
"${builder[@]}" bud --quiet --isolation chroot --format docker --pull-never "${lent[@]}" "$@" \
    --build-arg "REVISION=$(git rev-parse HEAD)" --build-arg "LOCK=$locks" --file docker/service.Dockerfile --tag "$image" . > /dev/null

container=$("${builder[@]}" from --pull-never "$image")
settings=(--env "CROSSLET_PORT=$port")
[[ $locks == *mcp.txt* ]] && settings+=(--env CROSSLET_MCP=true)
[[ $locks == *traces.txt* ]] && settings+=(--env OTEL_TRACES_EXPORTER=otlp)
inside=("${builder[@]}" run --isolation chroot "${settings[@]}" "$container" --)
rm -f "$work/service.log"
"${inside[@]}" crosslet serve > "$work/service.log" 2>&1 &
service=$!
# The signal goes to the service itself: buildah's chroot passes none on.
stop() { pkill -TERM --parent "$(pgrep --parent "$service" | head -n 1)" 2> /dev/null || kill "$service" 2> /dev/null || true; }
cleanup() {
    stop
    wait "$service" 2> /dev/null || true
    "${builder[@]}" rm "$container" > /dev/null
}
trap cleanup EXIT

for _ in $(seq 120); do  # the log says that it is ours that listens: another service may have the port
    if grep --quiet --no-messages '"event":"listening"' "$work/service.log"; then break; fi
    kill -0 "$service" 2> /dev/null || { cat "$work/service.log" >&2; fail "the service ended"; }
    sleep 0.5
done
grep --quiet '"event":"listening"' "$work/service.log" || fail "the service does not listen on port $port after 60 s"
"${inside[@]}" python3 /opt/crosslet/healthcheck.py || fail "/health does not answer on port $port"

python3 - "$port" "$locks" <<'PYTHON'
import json, math, sys, urllib.request

port, locks = sys.argv[1:]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(path, body):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers)
    return json.load(opener.open(request, timeout=10))


vectors = post("/embed", {"inputs": ["A man is playing a guitar.", "Ein Mann spielt Gitarre."]})
assert len(vectors) == 2, vectors
assert all(abs(math.hypot(*vector) - 1) < 1e-3 for vector in vectors), "not unit vectors"
print(f"image-test: /embed gives {len(vectors)} unit vectors of {len(vectors[0])} numbers")
if "mcp.txt" in locks:
    tools = post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]
    print(f"image-test: /mcp lists {[tool['name'] for tool in tools]}")
if "openai-ids.txt" in locks:
    hello = post("/v1/embeddings", {"input": [9906, 11, 1917, 0]})["data"][0]["embedding"]
    assert [hello] == post("/embed", {"inputs": ["Hello, world!"]}), "token ids have other vectors than their text"
    print("image-test: OpenAI's token ids have the vectors of their text")
PYTHON

[[ $locks != *traces.txt* ]] || ! grep --quiet "no traces are sent" "$work/service.log" || fail "traces are not sent"
user=$("${inside[@]}" python3 -c "import os; print(os.getuid())")
[[ $user == 10001 ]] || fail "the container runs as user $user, not 10001"
for package in torch transformers pip; do
    if "${inside[@]}" python3 -c "import $package" 2> /dev/null; then fail "the image can import $package"; fi
done
"${inside[@]}" test -w /data || fail "/data cannot be written by user $user"

bytes() { du --summarize --bytes "$1" | cut --fields=1; }
tree=$("${builder[@]}" mount "$container")
echo "image-test: user $user, no torch; files in the image $(($(bytes "$tree") / 1000000)) MB," \
    "of which ours (/opt/crosslet) $(($(bytes "$tree/opt/crosslet") / 1000000)) MB"
"${builder[@]}" umount "$container" > /dev/null
