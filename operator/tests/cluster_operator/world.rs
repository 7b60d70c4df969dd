//! A namespace of the cluster with an operator for it alone, and what tests do there.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use proofmill_crds::conditions::{ConditionStatus, types};
use proofmill_crds::{API_VERSION, Circuit, ProofJob, ProverPool};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::files::Files;

/// The image of both programs, in the node.
pub const IMAGE: &str = "localhost/proofmill:test";
/// Nothing that is waited for takes longer, even on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// See the module.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub files: Files,
    operators: Vec<Child>,
    /// Where each replica serves its HTTP.
    http: Vec<String>,
}

impl World {
    /// A namespace for the test of this name, and an operator; `None` where there is no cluster.
    pub async fn new(test: &str) -> Option<Self> {
        let world = Self::without_operator(test).await?;
        Some(world.and_operator("a"))
    }

    pub async fn without_operator(test: &str) -> Option<Self> {
        let client = match Client::try_default().await {
            Ok(client) if client.apiserver_version().await.is_ok() => client,
            _ => {
                println!("SKIPPED {test}: no cluster is up (tests/cluster/cluster up)");
                return None;
            }
        };
        if !has_image(&client).await {
            println!("SKIPPED {test}: the node has no image {IMAGE} (tests/image, tests/cluster/cluster image)");
            return None;
        }
        // A cluster that has just come up serves the kinds a moment later.
        for what in [&["apply", "--server-side", "--force-conflicts"][..], &["wait", "--for=condition=Established"]] {
            let done = kubectl().args(what).args(["-f", "../crds/yaml"]).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        let namespace = format!("{:.50}-{}", test.replace('_', "-"), std::process::id());
        let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        let metadata = ObjectMeta { name: Some(namespace.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let object = Namespace { metadata, ..Namespace::default() };
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        Some(Self { client, namespace, files: Files::serve(), operators: Vec::new(), http: Vec::new() })
    }

    pub fn and_operator(mut self, identity: &str) -> Self {
        self.start_operator(identity);
        self
    }

    /// Another replica of the operator; its number.
    pub fn start_operator(&mut self, identity: &str) -> usize {
        let log =
            std::fs::File::create(std::env::temp_dir().join(format!("{}-{identity}.log", self.namespace))).unwrap();
        // Free a moment ago; another test that takes it just now would show.
        let http = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_proofmill-operator"))
            .args(["run", "--http", &http, "--image", IMAGE, "--identity", identity])
            .args(["--namespace", &self.namespace, "--watch-namespace", &self.namespace])
            .env("RUST_LOG", "proofmill_operator=debug,warn")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.operators.push(child);
        self.http.push(http);
        self.operators.len() - 1
    }

    /// Ends a replica without a word.
    pub fn kill_operator(&mut self, number: usize) {
        self.operators[number].kill().unwrap();
        self.operators[number].wait().unwrap();
    }

    /// The metrics of a replica: name with labels, value.
    pub async fn metrics(&self, number: usize) -> BTreeMap<String, f64> {
        let url = format!("http://{}/metrics", self.http[number]);
        let output = tokio::process::Command::new("curl").args(["-sSf", "-m", "10", &url]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        samples.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect()
    }

    pub fn operator_pid(&self, number: usize) -> u32 {
        self.operators[number].id()
    }

    /// Sends a signal to a replica.
    pub fn signal_operator(&self, number: usize, signal: &str) {
        let pid = self.operator_pid(number).to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
    }

    /// How a replica ended, if it has.
    pub fn operator_ended(&mut self, number: usize) -> Option<std::process::ExitStatus> {
        self.operators[number].try_wait().unwrap()
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn create<K>(&self, name: &str, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let object = json!({
            "apiVersion": API_VERSION, "kind": K::kind(&()), "metadata": {"name": name}, "spec": spec,
        });
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let mut object = self.api::<K>().get(name).await.unwrap();
        // Nothing but noise where a test says what it last saw.
        object.meta_mut().managed_fields = None;
        object
    }

    pub async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// A pool of small pods; `engine` says what its engines are like.
    pub async fn pool(&self, name: &str, replicas: i32, engine: Value) {
        self.create::<ProverPool>(name, json!({"replicas": replicas, "template": self.template(engine)})).await;
    }

    pub fn template(&self, mut engine: Value) -> Value {
        engine["allowUrls"] = json!([self.files.url("")]);
        json!({
            "engine": engine,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": "20m", "memory": "1Gi", "ephemeral-storage": "64Mi"}, "limits": {"cpu": "2"}},
            "keyCache": {"sizeLimit": "64Mi"},
            "terminationGracePeriodSeconds": 30,
        })
    }

    /// The chain circuit of a curve.
    pub async fn chain(&self, name: &str, curve: &str, more: Value) {
        let mut files = json!({"zkey": {"url": self.files.url(&format!("chain/{curve}/chain.zkey"))}});
        files.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.create::<Circuit>(name, json!({"groth16": files})).await;
    }

    /// A circuit whose partitions take `milliseconds` on a device.
    pub async fn simulated(&self, name: &str, partitions: i32, milliseconds: i32) {
        let spec = json!({
            "partitions": partitions, "bytes": {"key": 1000, "workingSet": 1000}, "milliseconds": {"msmG1": milliseconds},
        });
        self.create::<Circuit>(name, json!({"simulated": spec})).await;
    }

    pub async fn job(&self, name: &str, circuit: &str, more: Value) {
        let mut spec = json!({"circuitRef": {"name": circuit}, "input": {"inline": "AAAA"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.create::<ProofJob>(name, spec).await;
    }

    /// Waits until something is so; what was last seen is said if it never is.
    pub async fn until<T: Debug>(&self, what: &str, mut seen: impl AsyncFnMut() -> (bool, T)) -> T {
        let begun = Instant::now();
        loop {
            let (so, last) = seen().await;
            if so {
                return last;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} never came about; last seen: {last:?}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits for a job's end.
    pub async fn end(&self, name: &str) -> ProofJob {
        self.until(&format!("the end of {name}"), async || {
            let job: ProofJob = self.get(name).await;
            (matches!(outcome(&job).0, Some(ConditionStatus::True | ConditionStatus::False)), job)
        })
        .await
    }

    /// Waits for a job's end, which must be this.
    pub async fn expect(&self, name: &str, status: ConditionStatus, reason: &str) -> ProofJob {
        let job = self.end(name).await;
        assert_eq!(outcome(&job), (Some(status), reason), "{name}: {:#?}\n{}", job.status, self.logs());
        job
    }

    /// Waits until a job shows a reason while it goes on.
    pub async fn shows(&self, name: &str, reason: &str) -> ProofJob {
        self.until(&format!("{name} with the reason {reason}"), async || {
            let job: ProofJob = self.get(name).await;
            (outcome(&job) == (Some(ConditionStatus::Unknown), reason), job)
        })
        .await
    }

    /// Waits until a pool has so many pods that take work.
    pub async fn ready(&self, pool: &str, pods: i32) {
        self.until(&format!("{pods} ready pods of {pool}"), async || {
            let pool: ProverPool = self.get(pool).await;
            let status = pool.status.unwrap_or_default();
            (status.ready_replicas == Some(pods) && status.replicas == Some(pods), status)
        })
        .await;
    }

    /// The pods of a pool that are not on their way out, by name.
    pub async fn pods(&self, pool: &str) -> Vec<Pod> {
        let selector = ListParams::default().labels(&format!("proofmill.dev/pool={pool}"));
        let mut pods = self.api::<Pod>().list(&selector).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(kube::ResourceExt::name_any);
        pods
    }

    /// A page of a pod's HTTP port.
    pub async fn page(&self, pod: &Pod, path: &str) -> String {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        let url = format!("http://{address}:9090{path}");
        let output = tokio::process::Command::new("curl").args(["-s", "-m", "5", &url]).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Partitions that the pods of a pool have proved, by their own count.
    pub async fn proved(&self, pool: &str) -> u64 {
        let mut sum = 0;
        for pod in self.pods(pool).await {
            let page = self.page(&pod, "/metrics").await;
            let lines = page.lines().filter(|line| line.starts_with("proofmill_partitions_total"));
            let lines = lines.filter(|line| line.contains("outcome=\"succeeded\""));
            sum += lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
        }
        sum
    }

    /// Kills what runs in a pod with SIGKILL.
    pub fn kill_pod(&self, pod: &Pod) {
        let uid = pod.uid().unwrap().replace('-', "_");
        let dashed = pod.uid().unwrap();
        let found = Command::new("pgrep").args(["-f", "prover serve"]).output().unwrap();
        let mut killed = 0;
        for pid in String::from_utf8(found.stdout).unwrap().split_whitespace() {
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            if groups.contains(&uid) || groups.contains(&dashed) {
                assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
                killed += 1;
            }
        }
        assert!(killed > 0, "no process of pod {} was found", pod.name_any());
    }

    /// kubectl, in this namespace; whether it succeeded.
    pub fn kubectl(&self, arguments: &[&str], stdin: &str) -> bool {
        use std::io::Write as _;
        let mut child = kubectl()
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // A kubectl that has failed reads nothing.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait().unwrap().success()
    }

    /// What there is, and the ends of the operators' logs.
    pub fn logs(&self) -> String {
        let shown = kubectl()
            .args(["--namespace", &self.namespace])
            .args(["get", "proverpools,pods,circuits,proofjobs", "--output", "wide"])
            .output()
            .unwrap();
        let mut text = String::from_utf8_lossy(&shown.stdout).into_owned();
        for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&self.namespace) && name.ends_with(".log") {
                let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(30)..];
                text += &format!("--- {name}\n{}\n", last.join("\n"));
            }
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for operator in &mut self.operators {
            let _ = operator.kill();
            let _ = operator.wait();
        }
        let _ = kubectl().args(["delete", "namespace", &self.namespace, "--wait=false"]).output();
        if !std::thread::panicking() {
            for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with(&self.namespace) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
    }
}

/// kubectl of the cluster that is up.
fn kubectl() -> Command {
    let mut command = Command::new("../tests/cluster/cluster");
    command.args(["exec", "kubectl"]);
    command
}

/// The condition `Succeeded` of a job: its status and reason.
pub fn outcome(job: &ProofJob) -> (Option<ConditionStatus>, &str) {
    let conditions = job.status.iter().flat_map(|status| &status.conditions);
    let succeeded = conditions.into_iter().find(|c| c.type_ == types::SUCCEEDED);
    (succeeded.map(|c| c.status), succeeded.map_or("", |c| &c.reason))
}

async fn has_image(client: &Client) -> bool {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let status = nodes.items.into_iter().filter_map(|node| node.status);
    let images = status.flat_map(|status| status.images.unwrap_or_default());
    images.flat_map(|image| image.names.unwrap_or_default()).any(|name| name == IMAGE)
}
