# Counting and reporting for tests/all.
passed=0 failed=0 skipped=0
failures=() skips=()
logs=$(mktemp -d)
# What a part has started is ended however the run ends.
cleanups=()
trap 'for cleanup in "${cleanups[@]}"; do $cleanup; done; rm -rf "$logs"' EXIT
begun=$SECONDS

section() { echo; echo "== $1"; }

# check NAME COMMAND...: one test; its output is shown only if it fails.
check() {
    local name=$1 at=$SECONDS
    shift
    if "$@" >"$logs/check" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name ($((SECONDS - at)) s)"
    else
        failed=$((failed + 1))
        failures+=("$name")
        echo "FAILED  $name ($((SECONDS - at)) s)"
        sed 's/^/        /' "$logs/check" | tail -n 200
    fi
}

skip() {
    skipped=$((skipped + 1))
    skips+=("$1: $2")
    echo "skipped $1: $2"
}

# cargo_tests NAME ARGUMENTS...: runs cargo test over the workspace and counts what it ran. A test that cannot run here
# prints a line "SKIPPED name: reason". With `within` set, the command that runs cargo.
cargo_tests() {
    local name=$1 at=$SECONDS
    shift
    if [ $# -eq 0 ]; then
        skip "$name" "there is no such test yet"
        return
    fi
    # shellcheck disable=SC2086
    ${within:-} cargo test --release --workspace --all-features --no-fail-fast "$@" -- --show-output >"$logs/tests" 2>&1
    local code=$? p f i s
    p=$(sed -n 's/^test result: .* \([0-9]*\) passed; .*/\1/p' "$logs/tests" | awk '{n += $1} END {print n + 0}')
    f=$(sed -n 's/^test result: .* \([0-9]*\) failed; .*/\1/p' "$logs/tests" | awk '{n += $1} END {print n + 0}')
    i=$(sed -n 's/^test result: .* \([0-9]*\) ignored; .*/\1/p' "$logs/tests" | awk '{n += $1} END {print n + 0}')
    while read -r line; do
        skip "${line%%:*}" "${line#*: }"
        p=$((p - 1))
    done < <(sed -n 's/^SKIPPED //p' "$logs/tests" | sort -u)
    [ "$i" -eq 0 ] || skip "$i tests of $name" "marked #[ignore]"
    passed=$((passed + p)) failed=$((failed + f))
    if [ $code -ne 0 ]; then
        [ "$f" -gt 0 ] || failed=$((failed + 1))
        failures+=("$name")
        echo "FAILED  $name: $p passed, $f failed ($((SECONDS - at)) s)"
        grep -vE '^test .* \.\.\. ok$|^running |^$' "$logs/tests" | sed 's/^/        /' | tail -n 400
    else
        echo "ok      $name: $p passed ($((SECONDS - at)) s)"
    fi
}

summary() {
    echo
    for line in "${skips[@]}"; do echo "skipped: $line"; done
    for line in "${failures[@]}"; do echo "failed: $line"; done
    echo "took $((SECONDS - begun)) s"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
