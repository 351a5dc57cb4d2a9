#!/usr/bin/env bash
# Makes the peers' virtual environments. Usage: make.sh FOLDER NAME... (crosslet, or a NAME.txt beside this script).
#
# Takes minutes and gigabytes the first time (three of them hold torch). Each environment goes to FOLDER/NAME and is
# remade only if its files changed. If a peer cannot be installed, its name is printed and the others are still made;
# the benchmark reports it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$1
shift

make_environment() {
  local name=$1 lock="$here/$1.txt" pip=("$folder/$1/bin/python" -m pip install -qq --disable-pip-version-check --no-deps)
  [[ $name == crosslet ]] && lock="$root/requirements/service.txt"
  local stamp="$folder/$name/.installed" torch="$root/requirements/torch-cpu.txt"
  cmp --silent <(cat "$lock" "$torch") "$stamp" && return
  echo "installing $name into $folder/$name"
  "${PYTHON:-python3}" -m venv --clear "$folder/$name" || return
  case $name in
    crosslet) "${pip[@]}" --require-hashes -r "$lock" || return ;;
    infinity | sentence-transformers | txtai)
      "$root/scripts/install-torch.sh" "$folder/$name/bin/python" cpu || return
      "${pip[@]}" -r "$lock" || return
      ;;
    *) "${pip[@]}" -r "$lock" || return ;;
  esac
  cat "$lock" "$torch" >"$stamp"
}

mkdir -p "$folder"
for name in "$@"; do
  make_environment "$name" || echo "$name: not installed" >&2
done
