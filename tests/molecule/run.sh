#!/usr/bin/env bash
# Every scenario, one after the other, on one lab that goes at the end. Argument: where to write the JUnit file.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
report=${1:-build/test/molecule.xml}
log=build/log/molecule
mkdir -p "$log"
trap 'python3 tests/lab down --name mol' EXIT
molecule reset --all >/dev/null 2>&1
passed=() failed=()
for folder in tests/molecule/*/molecule.yml; do
    scenario=$(basename "$(dirname "$folder")")
    begun=$SECONDS
    if molecule test --scenario-name "$scenario" --destroy=never >"$log/$scenario.log" 2>&1; then
        passed+=("$scenario")
        echo "molecule $scenario: passed in $((SECONDS - begun)) s"
    else
        failed+=("$scenario")
        tail -60 "$log/$scenario.log"
        echo "molecule $scenario: FAILED after $((SECONDS - begun)) s; the whole log is in $log/$scenario.log"
    fi
done
mkdir -p "$(dirname "$report")"
{
    echo "<testsuite name=\"molecule\" tests=\"$((${#passed[@]} + ${#failed[@]}))\" failures=\"${#failed[@]}\" errors=\"0\" skipped=\"0\">"
    for scenario in ${passed[@]+"${passed[@]}"}; do echo "<testcase name=\"$scenario\"/>"; done
    for scenario in ${failed[@]+"${failed[@]}"}; do echo "<testcase name=\"$scenario\"><failure/></testcase>"; done
    echo "</testsuite>"
} >"$report"
[ "${#failed[@]}" -eq 0 ]
