# What the tests need from registries, kept in ~/.cache/proofmill under names with versions.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/proofmill

# install_npm: circuits with their keys, circom and snarkjs as oracles. Never committed: their licences are their own.
install_npm() {
    local packages="@zk-kit/semaphore-artifacts@4.13.0 @waku/rln@0.0.13 @unirep/circuits@2.0.0
        @rarimo/zkp-gen-iden3@2.0.0-rc.34 snarkjs@0.7.6 circom2@0.2.23 circomlib@2.0.5"
    local dir
    dir=$cache/npm-$(echo "$packages" | sha256sum | cut -c1-12)
    if [ ! -e "$dir/complete" ]; then
        echo "installing npm packages (about 320 MB)"
        rm -rf "$dir" && mkdir -p "$dir"
        # shellcheck disable=SC2086
        if ! (cd "$dir" && echo '{"private":true}' >package.json &&
            npm install --legacy-peer-deps --ignore-scripts --no-audit --no-fund --loglevel=error $packages) >"$logs/npm" 2>&1; then
            tail -n 20 "$logs/npm"
            skip "oracles" "npm could not install the circuits and snarkjs"
            return 1
        fi
        touch "$dir/complete"
    fi
    export PROOFMILL_TEST_NPM=$dir/node_modules
    export PROOFMILL_TEST_SNARKJS=$dir/node_modules/snarkjs/build/cli.cjs
}

# install_moto: an S3 server.
install_moto() {
    local version=5.2.5
    local dir=$cache/moto-$version
    if [ ! -e "$dir/complete" ]; then
        echo "installing moto (an S3 server)"
        rm -rf "$dir"
        if ! { python3 -m venv "$dir" && "$dir/bin/pip" install --quiet "moto[server]==$version"; } >"$logs/pip" 2>&1; then
            tail -n 20 "$logs/pip"
            skip "S3" "pip could not install moto"
            return 1
        fi
        touch "$dir/complete"
    fi
    export PROOFMILL_TEST_MOTO=$dir/bin/moto_server
}

# helm_program: helm from PATH, or the one that tests/cluster builds; nothing if there is none.
helm_program() {
    local built
    command -v helm && return
    for built in "$cache"/cluster-*/bin/helm; do
        [ -x "$built" ] && echo "$built" && return
    done
}

# prometheus_program NAME: prometheus or promtool, from PATH or from Debian's package, unpacked and not installed.
prometheus_program() {
    local dir=$cache/prometheus-debian
    if command -v "$1"; then
        return
    fi
    if [ ! -e "$dir/complete" ]; then
        rm -rf "$dir" && mkdir -p "$dir"
        (
            cd "$dir"
            apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }
            dpkg-deb -x prometheus_*.deb .
        ) >&2 || return
        touch "$dir/complete"
    fi
    echo "$dir/usr/bin/$1"
}
