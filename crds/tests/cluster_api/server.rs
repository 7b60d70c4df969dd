//! A way to the API server: plain HTTP over a socket of `kubectl proxy`, so that warnings, codes and causes are seen as the
//! server gives them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proofmill_crds::API_VERSION;
use serde_json::{Value, json};

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const APPLY: &str = "application/apply-patch+yaml";

/// A connection to the API server, with a namespace of its own.
pub struct Server {
    proxy: Child,
    socket: PathBuf,
    pub namespace: String,
}

/// What the server answered.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

/// What kubectl said.
pub struct Said {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Server {
    /// Connects for the test of this name and installs the definitions; `None` when no cluster is up.
    pub fn connect(test: &str) -> Option<Self> {
        Self::connect_as(test, &test.replace('_', "-"))
    }

    /// As [`Self::connect`], with a namespace whose name begins so.
    pub fn connect_as(test: &str, namespace: &str) -> Option<Self> {
        if !kubectl(&["get", "--raw", "/readyz"], "").success {
            println!("SKIPPED {test}: no cluster is up (tests/cluster/cluster up)");
            return None;
        }
        let definitions = "yaml";
        kubectl(&["apply", "--server-side", "--force-conflicts", "-f", definitions], "").expect();
        kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "-f", definitions], "").expect();
        // Of this run alone: an older one's may take a while to go.
        let namespace = format!("{namespace:.50}-{}", std::process::id());
        let socket = std::env::temp_dir().join(format!("{namespace}.sock"));
        let proxy = command(&["proxy", &format!("--unix-socket={}", socket.display())])
            .stdout(Stdio::null())
            .spawn()
            .expect("kubectl proxy");
        let server = Self { proxy, socket, namespace };
        let begun = Instant::now();
        while UnixStream::connect(&server.socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "kubectl proxy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server.ensure_namespace(&server.namespace);
        Some(server)
    }

    /// Makes a namespace unless there is one of this name.
    pub fn ensure_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let path = format!("/api/v1/namespaces/{name}?fieldManager=tests");
        let answer = self.send("PATCH", &path, APPLY, &namespace.to_string());
        assert!(answer.is_success(), "{}", answer.message());
    }

    /// kubectl within the namespace.
    pub fn kubectl(&self, arguments: &[&str], stdin: &str) -> Said {
        kubectl(&[&["--namespace", &self.namespace], arguments].concat(), stdin)
    }

    /// The path of a kind's objects in the test's namespace, or of one of them.
    pub fn path(&self, kind: &str, name: &str) -> String {
        self.path_in(&self.namespace, kind, name)
    }

    /// As [`Self::path`], in any namespace.
    pub fn path_in(&self, namespace: &str, kind: &str, name: &str) -> String {
        let plural = format!("{}s", kind.to_lowercase());
        let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/{plural}/{name}");
        path.trim_end_matches('/').to_owned()
    }

    pub fn create(&self, object: &Value) -> Answer {
        let kind = object["kind"].as_str().unwrap();
        self.send("POST", &format!("{}?fieldValidation=Strict", self.path(kind, "")), JSON, &object.to_string())
    }

    pub fn get(&self, path: &str) -> Value {
        let answer = self.send("GET", path, JSON, "");
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        answer.body
    }

    pub fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // HTTP/1.0: the answer comes in one piece and ends with the connection.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {JSON}\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::parse(&String::from_utf8(bytes).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.send("DELETE", &format!("/api/v1/namespaces/{}", self.namespace), JSON, "");
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP answer");
        let mut lines = head.lines();
        let code = lines.next().and_then(|status| status.split(' ').nth(1)?.parse().ok()).expect("an HTTP status");
        let headers = lines.filter_map(|line| line.split_once(": "));
        let warnings =
            headers.filter(|(name, _)| name.eq_ignore_ascii_case("Warning")).map(|(_, text)| text.to_owned());
        Self { code, warnings: warnings.collect(), body: serde_json::from_str(body).unwrap_or(json!(body)) }
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The fields that the server names as causes, each as our validation writes it.
    pub fn fields(&self) -> Vec<String> {
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.filter_map(|cause| Some((cause["field"].as_str()?, cause["message"].as_str()?)));
        // What the server did not check for another error's sake is not a cause.
        let causes = causes.filter(|(_, message)| !message.contains("some validation rules were not checked"));
        // The object itself.
        let named = causes.map(|(field, _)| if field == "<nil>" { "" } else { field }.to_owned());
        // What cannot be decoded comes as text only.
        let after = |start: &'static str, end: &'static [char]| {
            self.message().split(start).skip(1).map(move |rest| rest.split(end).next().unwrap_or_default().to_owned())
        };
        let unknown = after("unknown field \"", &['"']);
        let metadata = after("Go struct field ObjectMeta.", &[' ']).map(|field| format!("metadata.{field}"));
        let all_metadata = after("Go value of type v1.ObjectMeta", &[' ']).map(|_| "metadata".to_owned());
        named.chain(unknown).chain(metadata).chain(all_metadata).collect()
    }
}

impl Said {
    pub fn expect(self) -> Self {
        assert!(self.success, "{}{}", self.stdout, self.stderr);
        self
    }
}

fn kubectl(arguments: &[&str], stdin: &str) -> Said {
    let mut child =
        command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A kubectl that has failed reads nothing.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Said {
        success: output.status.success(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("../tests/cluster/cluster");
    command.args(["exec", "kubectl"]).args(arguments).stdin(Stdio::null());
    command
}
