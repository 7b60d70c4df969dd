//! What floods and slow readers cost, by the process's resident memory: one test at a time.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Fake, Running, both_ports_live, config, engine_id, request, tcp};
use proofmill_engine::job::PartitionState;
use proofmill_proto::v1;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_streams_and_resets_are_bounded() {
    let _alone = ALONE.lock().await;
    let server = Running::start(config(), Fake::new("b")).await;
    let before = resident();
    let mut floods = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let address = tcp(&server.grpc);
        floods.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
            // HEADERS (:method POST, :scheme http, :path /, as indices) then RST_STREAM, on and on.
            for stream_id in (1u32..200_000).step_by(2) {
                bytes.extend([0, 0, 3, 1, 4]);
                bytes.extend(stream_id.to_be_bytes());
                bytes.extend([0x83, 0x86, 0x84]);
                bytes.extend([0, 0, 4, 3, 0]);
                bytes.extend(stream_id.to_be_bytes());
                bytes.extend([0, 0, 0, 8]);
            }
            let _ = timeout(Duration::from_secs(10), stream.write_all(&bytes)).await;
            // Endless header block of one request.
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83]);
            for _ in 0..5000 {
                bytes.extend([0, 0x10, 0, 9, 0, 0, 0, 0, 1]);
                bytes.extend([0x82; 0x1000]);
            }
            let _ = timeout(Duration::from_secs(10), stream.write_all(&bytes)).await;
        });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    timeout(Duration::from_secs(10), both_ports_live(&server)).await.expect("answers during the flood");
    floods.join_all().await;
    both_ports_live(&server).await;
    // The senders' own buffers are in this figure: 8 of 20 MiB, freed or not.
    let grown = resident().saturating_sub(before);
    assert!(grown < 400 << 20, "{} MiB", grown >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_the_newest_states_and_costs_little() {
    let _alone = ALONE.lock().await;
    let fake = Fake::new("b");
    let server = Running::start(config(), fake.clone()).await;
    let mut calls = server.client().calls();
    for n in 0..200 {
        calls.submit(request(&format!("j{n}"), 1)).await.unwrap();
    }
    let mut events = calls.watch(v1::WatchRequest { id: None }).await.unwrap().into_inner();
    let _ = events.message().await.unwrap().unwrap();
    let before = resident();
    for round in 0..2000 {
        let state = if round % 2 == 0 { PartitionState::Synthesis } else { PartitionState::Proving };
        for n in 0..200 {
            fake.enter(&engine_id(&format!("j{n}")), state);
        }
    }
    for n in 0..200 {
        fake.succeed(&engine_id(&format!("j{n}")));
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 120 << 20, "400,000 events took {} MiB", grown >> 20);
    let (mut done, mut skipped) = (0, 0);
    while done < 200 {
        let event = timeout(Duration::from_secs(20), events.message()).await.unwrap().unwrap().unwrap().event.unwrap();
        skipped += event.skipped;
        done += usize::from(event.state() == v1::PartitionState::Succeeded);
    }
    assert!(skipped > 100_000, "{skipped}");
    both_ports_live(&server).await;
}
