//! Clients that are slow, vanish, lie, or speak something else.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Fake, Running, both_ports_live, config, engine_id, get, id, request, tcp, until};
use proofmill_proto::v1;
use proofmill_server::config::Limits;
use proofmill_server::{Listen, ServeConfig, ServeError, Server};
use rand::{Rng, RngCore, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};
use tokio::time::timeout;

/// Sends `bytes`, then reads until the other side closes; what it said. Fails if it neither closes nor times out.
async fn say(address: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("still open after 20 s");
    answer
}

fn impatient() -> ServeConfig {
    let limits = Limits {
        handshake: Duration::from_millis(500),
        http_head: Duration::from_millis(500),
        grpc_handshakes: 512,
        http_connections: 512,
        ..Limits::default()
    };
    ServeConfig { limits, ..config() }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_both_ports() {
    let server = Running::start(impatient(), Fake::new("b")).await;
    let (grpc, http) = (tcp(&server.grpc), server.http.unwrap());
    let tls_hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 505]].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut words: Vec<Vec<u8>> = vec![
        tls_hello,
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"POST /proofmill.v1.Prover/Submit HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n".to_vec(),
        [b"GET / HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; 1 << 20]].concat(),
        [b"GET /".to_vec(), vec![b'a'; 1 << 20]].concat(),
        [b"GET / HTTP/1.1\r\n".to_vec(), b"x: y\r\n".repeat(10_000)].concat(),
        b"\0".repeat(100),
        b"SSH-2.0-x\r\n".to_vec(),
        preface[..20].to_vec(),
        [&preface[..], &[0xff; 1000]].concat(),
        // A frame that claims 16 MiB.
        [&preface[..], &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1], &[0; 5000]].concat(),
        // CONTINUATION without HEADERS, DATA on stream 0.
        [&preface[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], &[0, 0, 1, 9, 4, 0, 0, 0, 1, 0]].concat(),
        [&preface[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0]].concat(),
    ];
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    for _ in 0..60 {
        let mut bytes = vec![0; random.random_range(1..3000)];
        random.fill_bytes(&mut bytes);
        words.push(bytes);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for bytes in words {
        for address in [grpc, http] {
            let bytes = bytes.clone();
            tasks.spawn(
                async move { (address, bytes.starts_with(b"GET / HTTP/1.1\r\nhost"), say(address, &bytes).await) },
            );
        }
    }
    for (address, is_http, answer) in tasks.join_all().await {
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if is_http && address == grpc {
            assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("speaks gRPC"), "{answer}");
        }
        if is_http && address == http {
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("Proofmill"), "{answer}");
        }
    }
    let (status, head, _) = get(http, "/nothing").await;
    assert_eq!(status, 404, "{head}");
    both_ports_live(&server).await;
    let (_, _, metrics) = get(http, "/metrics").await;
    assert!(metrics.contains("proofmill_server_connections_refused_total{listener=\"grpc\"}"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_keep_others_out() {
    let limits = Limits { grpc_connections: 4, handshake: Duration::from_millis(300), ..Limits::default() };
    let limits = Limits { http_connections: 4, ..limits };
    let server = Running::start(ServeConfig { limits, ..config() }, Fake::new("b")).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(tcp(&server.grpc)).await.unwrap());
        silent.push(TcpStream::connect(server.http.unwrap()).await.unwrap());
    }
    both_ports_live(&server).await;
    // Those who speak HTTP/2 and then fall silent hold their places up to the limit and no more; one who leaves makes room.
    let mut clients = Vec::new();
    for _ in 0..4 {
        let client = server.client();
        let served = client.status(true).await;
        clients.push((client, served.is_ok()));
    }
    let last = server.client().status(true).await;
    assert!(last.is_err() || clients.iter().any(|(_, served)| !served), "a fifth connection was let in");
    clients.clear();
    let again = async {
        while server.client().status(true).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), again).await.expect("room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn liveness_answers_while_the_engine_hangs() {
    let fake = Fake::new("b");
    let limits = Limits { http_answer: Duration::from_millis(300), ..Limits::default() };
    let server = Running::start(ServeConfig { limits, ..config() }, fake.clone()).await;
    let http = server.http.unwrap();
    assert_eq!(get(http, "/status").await.0, 200);
    fake.stuck.store(true, Ordering::Release);
    for path in ["/metrics", "/status", "/readyz", "/metrics", "/status", "/readyz"] {
        let (status, _, body) = get(http, path).await;
        assert_eq!((status, body.contains("no answer")), (503, true), "{path}: {body}");
        let begin = Instant::now();
        assert_eq!(get(http, "/healthz").await.0, 200);
        assert!(begin.elapsed() < Duration::from_millis(250), "{:?}", begin.elapsed());
    }
    fake.stuck.store(false, Ordering::Release);
    assert_eq!(get(http, "/status").await.0, 200);
}

/// The runtime of gRPC has all its threads busy for good; the probe does not notice.
#[test]
fn liveness_answers_while_the_runtime_is_busy() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(Running::start(config(), Fake::new("b")));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for _ in 0..8 {
        let stop = stop.clone();
        runtime.spawn(async move {
            while !stop.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
    let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    own.block_on(async {
        for _ in 0..5 {
            let healthy = timeout(Duration::from_secs(5), get(server.http.unwrap(), "/healthz")).await.unwrap();
            assert_eq!(healthy.0, 200);
        }
    });
    stop.store(true, Ordering::Release);
    drop(server);
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_leaves_nothing_but_its_job() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let client = server.client();
    let task = tokio::spawn(async move { client.prove(&request("a", 1), |_| {}).await });
    until("the job is watched", || fake.watchers() == 1).await;
    task.abort();
    until("the watch is gone", || fake.watchers() == 0).await;
    assert_eq!(fake.known(), [engine_id("a")]);
    fake.succeed(&engine_id("a"));
    // Another client with the same submission finds the result.
    let proof = server.client().prove(&request("a", 1), |_| {}).await.unwrap().unwrap();
    assert_eq!(proof.device, "cpu");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_are_bounded() {
    let limits = Limits { watches: 3, ..Limits::default() };
    let server = Running::start(ServeConfig { limits, ..config() }, Fake::new("b")).await;
    let mut calls = server.client().calls();
    let mut open = Vec::new();
    for n in 0..3 {
        open.push(calls.watch(v1::WatchRequest { id: None }).await.unwrap());
        let gauge = format!("proofmill_server_watches {}", n + 1);
        let end = Instant::now() + Duration::from_secs(10);
        while !get(server.http.unwrap(), "/metrics").await.2.contains(&gauge) {
            assert!(Instant::now() < end, "no {gauge}");
        }
    }
    let status = calls.watch(v1::WatchRequest { id: None }).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
    open.pop();
    let again = async {
        while calls.watch(v1::WatchRequest { id: None }).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), again).await.expect("room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_are_private_and_stale_ones_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("engine.sock");
    let at = |path: &std::path::Path| ServeConfig { grpc: Listen::Unix(path.into()), http: None, ..config() };
    // What a killed process left: a socket that nobody answers at.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = Running::start(at(&path), Fake::new("b")).await;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left there");
    server.client().calls().submit(request("a", 1)).await.unwrap();
    assert_eq!(server.client().status(true).await.unwrap().partitions[0].id, Some(id("a")));

    let taken = Server::bind(at(&path)).await.err().unwrap();
    assert!(taken.to_string().contains("another process listens there"), "{taken}");
    server.handle.wish(proofmill_server::shutdown::Wish::Stop);
    server.end.await.unwrap().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while path.exists() {
        assert!(Instant::now() < end, "the socket file is left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    std::fs::write(&path, "precious").unwrap();
    let error = Server::bind(at(&path)).await.err().unwrap();
    assert!(error.to_string().contains("no socket is in the way"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    for bad in [dir.path().join("absent/engine.sock"), dir.path().join("x".repeat(120))] {
        let error = Server::bind(at(&bad)).await.err().unwrap();
        assert!(
            matches!(&error, ServeError::Listen(_)) && error.to_string().contains("cannot listen at unix:"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn taken_ports_and_open_ones_are_refused_with_words() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let error = Server::bind(ServeConfig { grpc: Listen::Tcp(taken), ..config() }).await.err().unwrap();
    assert!(error.to_string().contains(&taken.to_string()) && error.to_string().contains("in use"), "{error}");
    let error = Server::bind(ServeConfig { http: Some(taken), ..config() }).await.err().unwrap();
    assert!(error.to_string().contains("cannot serve HTTP at"), "{error}");
    let open = ServeConfig { grpc: "0.0.0.0:0".parse().unwrap(), ..config() };
    let error = Server::bind(open).await.err().unwrap();
    assert!(error.to_string().contains("--insecure"), "{error}");
}
