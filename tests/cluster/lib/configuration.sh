# Certificates and configuration files of a cluster, made anew at each start.

certificates() {
    mkdir -p "$pki"
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$pki/ca.key" -out "$pki/ca.crt" -subj /CN=test-ca -days 30 2>/dev/null
    sign apiserver /CN=kube-apiserver \
        "IP:127.0.0.1,IP:198.19.0.1,IP:$node_ip,DNS:localhost,DNS:kubernetes.default.svc"
    sign admin /O=system:masters/CN=admin DNS:admin
    sign node /O=system:nodes/CN=system:node:node-1 DNS:node-1
    sign kubelet /CN=node-1 "DNS:node-1,IP:$node_ip"
    openssl genrsa -out "$pki/sa.key" 2048 2>/dev/null
    openssl rsa -in "$pki/sa.key" -pubout -out "$pki/sa.pub" 2>/dev/null
    kubeconfig admin
    kubeconfig node
}

# sign NAME SUBJECT ALTERNATIVE-NAMES
sign() {
    openssl req -newkey rsa:2048 -nodes -keyout "$pki/$1.key" -out "$pki/$1.csr" -subj "$2" 2>/dev/null
    openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 30 \
        -out "$pki/$1.crt" -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth' "$3") 2>/dev/null
}

# kubeconfig USER
kubeconfig() {
    cat >"$run/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://$node_ip:6443", certificate-authority: $pki/ca.crt}}]
users: [{name: $1, user: {client-certificate: $pki/$1.crt, client-key: $pki/$1.key}}]
contexts: [{name: test, context: {cluster: test, user: $1}}]
current-context: test
YAML
}

configuration() {
    cat >"$run/audit.yaml" <<YAML
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
YAML
    cat >"$run/cni/10-pods.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.18.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "$run/ipam"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
JSON
    cat >"$run/containerd.toml" <<TOML
version = 2
root = "$run/containerd"
state = "$containerd"
[grpc]
address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
# Without CAP_SYS_RESOURCE runc cannot lower it, and fails obscurely.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$run/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
TOML
    cat >"$run/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$socket
cgroupDriver: cgroupfs
failSwapOn: false
address: $node_ip
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $pki/ca.crt}, webhook: {enabled: true}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
YAML
    cat >"$run/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $run/admin.kubeconfig}
clusterCIDR: $pods
conntrack: {maxPerCore: 0}
bindAddress: $node_ip
YAML
}
