#!/usr/bin/env bash
# Writes what is published beside the wheel: its bill of materials (CycloneDX, JSON) and the hashes of both.
# Usage: release.sh PYTHON [FOLDER]. PYTHON has pip and hatchling. Some minutes; needs the index.
# Writes crosslet-VERSION-py3-none-any.whl, crosslet-VERSION.cdx.json and SHA256SUMS into FOLDER (default: dist).
set -euo pipefail
python=$(realpath --no-symlinks "$1")
folder=$(realpath "${2:-dist}")
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$python" -m hatchling build --target wheel --directory "$work/dist"
wheel=$(echo "$work"/dist/*.whl)
version=$(basename "$wheel" | cut -d - -f 2)

# What an installation holds: the locked packages and the wheel, without pip.
install() { "$python" -m pip --python "$1" install --quiet --disable-pip-version-check --no-deps "${@:2}"; }
for name in installed tool; do "$python" -m venv --without-pip "$work/$name"; done
install "$work/installed/bin/python" --require-hashes -r requirements/service.txt
install "$work/installed/bin/python" "$wheel"
install "$work/tool/bin/python" --require-hashes -r requirements/sbom.txt
"$work/tool/bin/cyclonedx-py" environment --output-reproducible --output-format JSON \
    --output-file "$work/dist/crosslet-$version.cdx.json" "$work/installed/bin/python"

(cd "$work/dist" && sha256sum "$(basename "$wheel")" "crosslet-$version.cdx.json" > SHA256SUMS)
mkdir -p "$folder"
mv "$work"/dist/* "$folder"
