#!/usr/bin/env bash
# Every linter, also after one has failed; names those that did.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=()

check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "lint: $name"
    else
        echo "lint: $name FAILED"$'\n'"$output"
        failed+=("$name")
    fi
}

mapfile -t scripts < <(git grep -lE '^#!.*\b(ba|da)?sh$' && git ls-files '*.sh' ':!*/profile.d/*')
mapfile -t program < <(git ls-files 'ansible/roles/*/files/*.py' ':!ansible/roles/spark_job/')
mapfile -t relay < <(git ls-files 'spark_app/*.py' 'ansible/roles/spark_job/files/*.py')

check ruff ruff check --no-cache .
check "ruff format" ruff format --no-cache --check .
check "mypy, the core" mypy --no-site-packages -p ansible_collections.kafka.natmap.plugins.module_utils
check "mypy, the job" env MYPYPATH=spark_app:tests:ansible/roles/spark_job/files:ansible/roles/switch/files \
    mypy -p tagdata -m audit -m relay -m relay_edge -p spark
check yamllint yamllint --strict .
check shellcheck shellcheck --external-sources "${scripts[@]}"
check "vermin, the node program" vermin --target=3.6- --no-tips --violations "${program[@]}"
check "vermin, the relay" vermin --target=3.9- --no-tips --violations "${relay[@]}"
check ansible-lint ansible-lint --nocolor

if ((${#failed[@]})); then
    echo "lint: ${#failed[@]} failed: ${failed[*]}"
    exit 1
fi
