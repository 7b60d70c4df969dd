//! The calls over a real socket, with an engine that does what the test says.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Fake, QUEUE_LIMIT, Running, config, engine_id, id, request, until};
use proofmill_engine::job::{Failure, FailureKind, PartitionState};
use proofmill_proto::v1::partition_event::Outcome;
use proofmill_proto::v1::{self, PartitionState as S};
use proofmill_server::client::{Client, ClientConfig, ClientError};
use proofmill_server::config::VerifyingKeys;
use proofmill_server::shutdown::Wish;
use proofmill_server::{Ended, ServeConfig};
use tonic::Code;

fn reason(status: &tonic::Status) -> String {
    status.metadata().get("proofmill-reason").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn submit_watch_ack() {
    let fake = Fake::new("boot-1");
    let server = Running::start(config(), fake.clone()).await;
    let mut calls = server.client().calls();

    let first = calls.submit(request("a", 1)).await.unwrap().into_inner();
    assert_eq!((first.boot_id.as_str(), first.attached), ("boot-1", false));
    assert!(calls.submit(request("a", 1)).await.unwrap().into_inner().attached);

    let mut events = calls.watch(v1::WatchRequest { id: Some(id("a")) }).await.unwrap().into_inner();
    for state in [PartitionState::Synthesis, PartitionState::Proving] {
        fake.enter(&engine_id("a"), state);
    }
    fake.succeed(&engine_id("a"));
    let mut states = Vec::new();
    let mut outcome = None;
    while let Some(message) = events.message().await.unwrap() {
        assert_eq!(message.boot_id, "boot-1");
        let event = message.event.unwrap();
        assert_eq!((event.id.as_ref(), event.skipped), (Some(&id("a")), 0));
        states.push(event.state());
        outcome = event.outcome;
    }
    assert_eq!(states, [S::Queued, S::Synthesis, S::Proving, S::Succeeded]);
    let Some(Outcome::Proof(proof)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(proof.proof, 4711u64.to_le_bytes());
    let mut signals = [0u8; 64];
    (signals[0], signals[56]) = (1, 2);
    assert_eq!(proof.public_signals, signals);

    let list = calls.list(v1::ListRequest {}).await.unwrap().into_inner();
    assert_eq!((list.boot_id.as_str(), list.draining, list.partitions.len()), ("boot-1", false, 1));
    assert_eq!((list.partitions[0].state(), list.partitions[0].priority()), (S::Succeeded, v1::Priority::Normal));
    for forgotten in [true, false] {
        assert_eq!(calls.ack(v1::AckRequest { id: Some(id("a")) }).await.unwrap().into_inner().forgotten, forgotten);
    }
    let status = calls.watch(v1::WatchRequest { id: Some(id("a")) }).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "UnknownPartition"));
    assert_eq!(server.stop().await, Ended::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_has_its_code_and_reason() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let mut calls = server.client().calls();
    let mut refused = async |request: v1::SubmitRequest| {
        let status = calls.submit(request).await.unwrap_err();
        (status.code(), reason(&status), status.message().to_owned())
    };

    let (code, why, text) = refused(v1::SubmitRequest::default()).await;
    assert_eq!((code, why.as_str(), text.as_str()), (Code::InvalidArgument, "InvalidArgument", "id: is missing"));

    server.client().calls().submit(v1::SubmitRequest { epoch: 3, ..request("a", 1) }).await.unwrap();
    let (code, why, text) = refused(v1::SubmitRequest { epoch: 3, digest: vec![7; 32], ..request("a", 1) }).await;
    assert_eq!((code, why.as_str()), (Code::AlreadyExists, "Conflict"));
    assert!(text.contains("a/0/0") && text.contains("new id"), "{text}");

    let (code, why, text) = refused(v1::SubmitRequest { epoch: 2, ..request("b", 1) }).await;
    assert_eq!((code, why.as_str()), (Code::FailedPrecondition, "StaleEpoch"));
    assert!(text.contains('2') && text.contains('3'), "{text}");

    // A message that is too big is refused before it is decoded.
    let mut huge = v1::SubmitRequest { epoch: 3, ..request("huge", 1) };
    huge.input = Some(v1::Input { source: Some(v1::input::Source::Inline(vec![0; 1 << 20])) });
    server.client().calls().submit(huge.clone()).await.unwrap();
    huge.input = Some(v1::Input { source: Some(v1::input::Source::Inline(vec![0; (1 << 20) + 1])) });
    let (code, why, _) = refused(huge.clone()).await;
    assert_eq!((code, why.as_str()), (Code::InvalidArgument, "InvalidArgument"));
    huge.input = Some(v1::Input { source: Some(v1::input::Source::Inline(vec![0; 3 << 20])) });
    let mut unbounded = v1::prover_client::ProverClient::connect(format!("http://{}", server.grpc)).await.unwrap();
    assert_eq!(unbounded.submit(huge).await.unwrap_err().code(), Code::OutOfRange);

    let _ = calls_drain(&server, 60_000).await;
    until("intake is closed", || proofmill_server::backend::Backend::snapshot(&*fake).draining).await;
    let (code, why, text) = refused(v1::SubmitRequest { epoch: 3, ..request("c", 1) }).await;
    assert_eq!((code, why.as_str()), (Code::Unavailable, "Draining"));
    assert!(text.contains("submit to another"), "{text}");
}

async fn calls_drain(server: &Running, grace_ms: u64) -> u64 {
    server.client().calls().drain(v1::DrainRequest { grace_ms: Some(grace_ms) }).await.unwrap().into_inner().remaining
}

#[tokio::test(flavor = "multi_thread")]
async fn steering_calls() {
    struct Keys;
    impl VerifyingKeys for Keys {
        fn verifying_key(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
            (*digest == [5; 32]).then(|| b"{}".to_vec())
        }
    }
    let fake = Fake::new("b");
    let config = ServeConfig { verifying_keys: Some(Arc::new(Keys)), ..config() };
    let server = Running::start(config, fake.clone()).await;
    let mut calls = server.client().calls();
    calls.submit(request("a", 1)).await.unwrap();

    let high = v1::Priority::High.into();
    let changed = calls.reprioritise(v1::ReprioritiseRequest { job: "a".into(), priority: high }).await.unwrap();
    assert_eq!(changed.into_inner().changed, 1);
    assert_eq!(calls.list(v1::ListRequest {}).await.unwrap().into_inner().partitions[0].priority(), v1::Priority::High);
    let bad = calls.reprioritise(v1::ReprioritiseRequest { job: "a".into(), priority: 9 }).await.unwrap_err();
    assert_eq!((bad.code(), bad.message().starts_with("priority: 9 ")), (Code::InvalidArgument, true));

    let cancel = v1::CancelRequest { id: Some(id("a")) };
    assert!(calls.cancel(cancel.clone()).await.unwrap().into_inner().cancelled);
    assert!(!calls.cancel(cancel).await.unwrap().into_inner().cancelled);
    let mut events = calls.watch(v1::WatchRequest { id: Some(id("a")) }).await.unwrap().into_inner();
    let event = events.message().await.unwrap().unwrap().event.unwrap();
    assert_eq!(event.state(), S::Cancelled);
    let Some(Outcome::Failure(failure)) = event.outcome else { panic!("{:?}", event.outcome) };
    assert_eq!(failure.kind(), v1::FailureKind::Cancelled);
    assert!(events.message().await.unwrap().is_none());

    let evict = async |circuit: &str| {
        server
            .client()
            .calls()
            .evict(v1::EvictRequest { circuit: circuit.into() })
            .await
            .map(|r| r.into_inner().evicted)
    };
    assert!(evict("resident").await.unwrap());
    assert!(!evict("absent").await.unwrap());
    assert_eq!(evict("No/Name").await.unwrap_err().code(), Code::InvalidArgument);
    calls.preload(v1::PreloadRequest { circuit: request("x", 1).circuit }).await.unwrap();
    assert_eq!(calls.preload(v1::PreloadRequest { circuit: None }).await.unwrap_err().code(), Code::InvalidArgument);

    let key = async |digest: Vec<u8>| {
        server.client().calls().verifying_key(v1::VerifyingKeyRequest { digest }).await.map(|r| r.into_inner().json)
    };
    assert_eq!(key(vec![5; 32]).await.unwrap(), b"{}");
    assert_eq!(reason(&key(vec![6; 32]).await.unwrap_err()), "UnknownVerifyingKey");
    assert_eq!(key(vec![5; 31]).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_its_stream() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let client = server.client();
    client.calls().submit(request("a", 1)).await.unwrap();
    let status = client.status(true).await.unwrap();
    assert_eq!((status.boot_id.as_str(), status.partitions.len(), status.devices.len()), ("b", 1, 1));
    assert!(status.memory.iter().any(|m| m.r#use == "resident" && m.bytes > 1 << 20), "{:?}", status.memory);
    assert!(client.status(false).await.unwrap().partitions.is_empty());

    let mut seen = 0;
    let reports = client.watch_status(Duration::from_millis(100), false, |report| {
        assert_eq!(report.boot_id, "b");
        seen += 1;
        seen < 3
    });
    tokio::time::timeout(Duration::from_secs(20), reports).await.unwrap().unwrap();
    assert_eq!(seen, 3);
    let bad = client.watch_status(Duration::from_millis(1), false, |_| true).await.unwrap_err();
    assert!(matches!(&bad, ClientError::Refused { code: Code::InvalidArgument, .. }), "{bad}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_engine_reports_rarely_if_asked_to_and_at_once_when_it_has_work() {
    let server = Running::start(config(), Fake::new("b")).await;
    let client = server.client();
    let asking = |unchanged_interval_ms| v1::WatchStatusRequest {
        interval_ms: 100,
        without_partitions: false,
        unchanged_interval_ms,
    };
    let mut reports = client.calls().watch_status(asking(3_600_000)).await.unwrap().into_inner();
    let first = reports.message().await.unwrap().unwrap();
    assert!(first.partitions.is_empty());
    let more = tokio::time::timeout(Duration::from_secs(1), reports.message()).await;
    assert!(more.is_err(), "nothing but time has changed: {more:?}");
    client.calls().submit(request("a", 1)).await.unwrap();
    let second = tokio::time::timeout(Duration::from_secs(20), reports.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(second.partitions.len(), 1);
    let bad = client.calls().watch_status(asking(1)).await.unwrap_err();
    assert_eq!(bad.code(), Code::InvalidArgument);
    assert!(bad.message().starts_with("unchanged_interval_ms: "), "{}", bad.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_queued_jobs_and_a_full_queue() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let client = server.client();
    let mut tasks = tokio::task::JoinSet::new();
    for part in 0..10 {
        let mut calls = client.calls();
        tasks.spawn(async move {
            for n in 0..100 {
                calls.submit(request(&format!("job-{part}-{n}"), 1)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let mut calls = client.calls();
    assert_eq!(calls.list(v1::ListRequest {}).await.unwrap().into_inner().partitions.len(), 1000);
    let mut events = calls.watch(v1::WatchRequest { id: None }).await.unwrap().into_inner();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 1000 {
        seen.insert(events.message().await.unwrap().unwrap().event.unwrap().id.unwrap().job);
    }
    for n in 1000..QUEUE_LIMIT {
        calls.submit(request(&format!("more-{n}"), 1)).await.unwrap();
    }
    let status = calls.submit(request("too-many", 1)).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::ResourceExhausted, "QueueFull"));
    drop(events);
    until("the watch is gone", || fake.watchers() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prove_follows_to_the_end_and_names_failures() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let client = server.client();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let task = {
        let (client, seen) = (client.clone(), seen.clone());
        tokio::spawn(async move { client.prove(&request("a", 1), |e| seen.lock().unwrap().push(e.state())).await })
    };
    until("the job is watched", || fake.watchers() == 1).await;
    fake.enter(&engine_id("a"), PartitionState::Proving);
    let message = "the input has 3 values, the circuit takes 4".to_owned();
    fake.end(
        &engine_id("a"),
        PartitionState::Failed,
        Err(Failure { kind: FailureKind::BadInput, message: message.clone() }),
    );
    let failure = task.await.unwrap().unwrap().unwrap_err();
    assert_eq!((failure.kind(), failure.message), (v1::FailureKind::BadInput, message));
    assert_eq!(*seen.lock().unwrap(), [S::Queued, S::Proving, S::Failed]);
    assert!(client.acknowledge(&id("a")).await.unwrap());

    let mut conflicting = request("a", 1);
    client.calls().submit(conflicting.clone()).await.unwrap();
    conflicting.digest = vec![0; 32];
    let error = client.prove(&conflicting, |_| {}).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused { reason, .. } if reason == "Conflict"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prove_survives_a_restart_of_the_engine() {
    let first = Fake::new("boot-1");
    let server = Running::start(config(), first.clone()).await;
    let address = server.grpc.clone();
    let client = server.client();
    let task = tokio::spawn(async move { client.prove(&request("a", 1), |_| {}).await });
    until("the job is watched", || first.watchers() == 1).await;
    server.handle.wish(Wish::Stop);
    assert_eq!(server.end.await.unwrap().unwrap(), Ended::Stopped);

    let second = Fake::new("boot-2");
    let server = loop {
        match proofmill_server::Server::bind(ServeConfig { grpc: address.clone(), ..config() }).await {
            Ok(server) => break server,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let (_handle, shutdown) = proofmill_server::shutdown::pair();
    tokio::spawn(server.run(second.clone(), shutdown));
    until("the job is submitted again", || second.watchers() == 1).await;
    second.succeed(&engine_id("a"));
    assert_eq!(task.await.unwrap().unwrap().unwrap().proof, 4711u64.to_le_bytes());
    let client = Client::new(ClientConfig::new(address.to_string().parse().unwrap())).unwrap();
    assert_eq!(client.status(false).await.unwrap().boot_id, "boot-2");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_said_so() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = ClientConfig::new(free.to_string().parse().unwrap());
    config.patience = Duration::from_millis(300);
    let client = Client::new(config).unwrap();
    for error in [client.status(true).await.unwrap_err(), client.prove(&request("a", 1), |_| {}).await.unwrap_err()] {
        let text = error.to_string();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{text}");
        assert!(
            text.contains(&free.to_string()) && text.contains("prover serve") && text.contains("refused"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_finishes_work_while_status_answers() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let (client, http) = (server.client(), server.http.unwrap());
    client.calls().submit(request("a", 1)).await.unwrap();
    let mut events = client.calls().watch(v1::WatchRequest { id: Some(id("a")) }).await.unwrap().into_inner();
    assert_eq!(common::get(http, "/readyz").await.0, 200);
    server.handle.wish(Wish::Drain);
    until("intake is closed", || proofmill_server::backend::Backend::snapshot(&*fake).draining).await;
    assert!(client.status(false).await.unwrap().draining);
    let (status, _, body) = common::get(http, "/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("draining"), "{body}");
    assert_eq!(common::get(http, "/healthz").await.0, 200);
    fake.succeed(&engine_id("a"));
    let mut last = S::Unspecified;
    while let Some(message) = events.message().await.unwrap() {
        last = message.event.unwrap().state();
    }
    assert_eq!(last, S::Succeeded);
    // The result is acknowledged within the linger time, so the end need not wait for all of it.
    assert!(client.acknowledge(&id("a")).await.unwrap());
    assert_eq!(server.end.await.unwrap().unwrap(), Ended::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_hands_back_what_the_grace_period_cuts_off() {
    let fake = Fake::new("b");
    let server =
        Running::start(ServeConfig { drain_grace: Duration::from_millis(100), ..config() }, fake.clone()).await;
    let client = server.client();
    let task = {
        let client = client.clone();
        tokio::spawn(async move { client.prove(&request("a", 1), |_| {}).await })
    };
    until("the job is watched", || fake.watchers() == 1).await;
    server.handle.wish(Wish::Drain);
    let failure = task.await.unwrap().unwrap().unwrap_err();
    assert_eq!(failure.kind(), v1::FailureKind::Draining);
    assert_eq!(server.end.await.unwrap().unwrap(), Ended::HandedBack);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_wish_stops_at_once_even_if_the_engine_hangs() {
    let fake = Fake::new("b");
    let server = Running::start(ServeConfig { drain_grace: Duration::from_secs(3600), ..config() }, fake.clone()).await;
    server.client().calls().submit(request("a", 1)).await.unwrap();
    server.handle.wish(Wish::Drain);
    until("intake is closed", || proofmill_server::backend::Backend::snapshot(&*fake).draining).await;
    server.handle.wish(Wish::Stop);
    let end = tokio::time::timeout(Duration::from_secs(5), server.end).await.unwrap();
    assert_eq!(end.unwrap().unwrap(), Ended::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_closes_watches_with_a_reason() {
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let mut events = server.client().calls().watch(v1::WatchRequest { id: None }).await.unwrap().into_inner();
    let reading = tokio::spawn(async move { events.message().await });
    until("the watch is open", || fake.watchers() == 1).await;
    let begin = std::time::Instant::now();
    assert_eq!(server.stop().await, Ended::Finished);
    assert!(begin.elapsed() < Duration::from_secs(5));
    let status = reading.await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "Stopping"));
}
