# Processes within the cluster's network namespace.

# Not `ip netns exec`: that one hides /sys/fs/cgroup.
inside() { nsenter --net=/run/netns/$ns "$@"; }

# start NAME COMMAND...: its process id is kept with its start time, so that `stop` never ends another process that got
# the same number.
start() {
    local name=$1
    shift
    setsid nsenter --net=/run/netns/$ns "$@" >"$run/log/$name.log" 2>&1 </dev/null &
    echo "$! $(started $!)" >"$run/$name.pid"
}

started() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }

stop() {
    local file=$run/$1.pid id time
    [ -f "$file" ] || return 0
    read -r id time <"$file"
    rm -f "$file"
    [ -n "$time" ] && [ "$(started "$id")" = "$time" ] || return 0
    kill "$id" 2>/dev/null || true
    for _ in $(seq 50); do
        [ "$(started "$id")" = "$time" ] || return 0
        sleep 0.1
    done
    kill -9 "$id" 2>/dev/null || true
}

# wait_for WHAT COMMAND...: for a minute at most, since other work may hold the machine's cores.
wait_for() {
    local what=$1
    shift
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    fail "$what did not come up; see $run/log"
}
