# The programs of a cluster: Debian's packages, Kubernetes built from Go modules, an image for the sandbox of pods.

packages="containerd runc containernetworking-plugins umoci skopeo iptables conntrack iproute2 openssl curl gcc libc6-dev"

# install: what is missing of Debian's packages. Only root gets here.
install() {
    local missing=() package
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "cluster: installing ${missing[*]}"
    apt-get install -y -q --no-install-recommends "${missing[@]}" >"$home/apt.log" 2>&1 ||
        { apt-get update -q && apt-get install -y -q --no-install-recommends "${missing[@]}"; } >>"$home/apt.log" 2>&1 ||
        fail "packages could not be installed: ${missing[*]}; see $home/apt.log"
}

# build: about 10 minutes on 2 cores, once for a version.
build() {
    mkdir -p "$bin"
    [ "$(cat "$bin/version" 2>/dev/null)" = "$version" ] && return
    command -v go >/dev/null || fail "needs go 1.24 or newer to build Kubernetes"
    echo "cluster: building Kubernetes $version (about 10 minutes, once)"
    # Clients see version 0.0 unless the linker is told another one.
    local minor=${version#v1.} stamp=k8s.io/component-base/version
    local flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
    flags+=" -X k8s.io/client-go/pkg/version.gitVersion=$version"
    local program
    for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
        compile "$here" "$program" "k8s.io/kubernetes/cmd/$program" "$flags"
    done
    compile "$here" etcd go.etcd.io/etcd/server/v3 "-s -w"
    # Charts may ask for a version, which helm otherwise takes for 1.20 while no cluster is near.
    local charts=helm.sh/helm/v3/pkg/chartutil
    compile "$here" helm helm.sh/helm/v3/cmd/helm \
        "-s -w -X $charts.k8sVersionMajor=1 -X $charts.k8sVersionMinor=${minor%%.*}"
    # In a module of its own: it needs newer libraries of Kubernetes.
    compile "$here/kwok" kwok sigs.k8s.io/kwok/cmd/kwok "-s -w"
    local stages
    stages=$(cd "$here/kwok" && go list -mod=readonly -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
    awk 'FNR == 1 {print "---"} {print}' "$stages"/node/fast/node-initialize.yaml \
        "$stages"/node/heartbeat/node-heartbeat.yaml "$stages"/pod/fast/pod-{ready,complete,delete}.yaml \
        >"$bin/kwok-stages.yaml"
    echo "$version" >"$bin/version"
}

# compile MODULE NAME PACKAGE LINKER-FLAGS
compile() {
    (cd "$1" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$4" -o "$bin/$2" "$3") ||
        fail "$2 could not be built"
}

# pause_image: the process that holds a pod's namespaces.
pause_image() {
    [ -f "$home/pause.tar" ] && return
    local folder
    folder=$(mktemp -d)
    cat >"$folder/pause.c" <<'C'
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void down(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGINT, down); signal(SIGTERM, down); signal(SIGCHLD, reap); for (;;) pause(); }
C
    gcc -static -Os -o "$folder/pause" "$folder/pause.c"
    {
        umoci init --layout "$folder/oci"
        umoci new --image "$folder/oci:pause"
        umoci insert --image "$folder/oci:pause" "$folder/pause" /pause
        umoci config --image "$folder/oci:pause" --config.entrypoint /pause
        skopeo copy -q "oci:$folder/oci:pause" "oci-archive:$home/pause.part:localhost/pause:1"
    } >"$folder/log" 2>&1 || fail "the pause image could not be made: $(cat "$folder/log")"
    mv "$home/pause.part" "$home/pause.tar"
    rm -rf "$folder"
}
