//! HTTP answers as a whole: what arrives, statuses, retries, cancellation, disks, threads.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fetching::{content, get, impatient};
use crate::hostile::{OK, Server, answer, cancelled, fetcher, send};
use proofmill_sources::policy::{Network, Retries};
use proofmill_sources::{ErrorClass, FetchError, Fetcher, Policy};

#[test]
fn bytes_and_files_arrive() {
    let body = content(3 << 20);
    let served = body.clone();
    let server = Server::start(move |_, stream| answer(stream, OK, "", &served));
    let fetcher = fetcher();
    let last = std::cell::Cell::new((0, None));
    let bytes = fetcher
        .fetch_bytes(&server.url("/x"), None, 3 << 20, &|| false, &|done, total| last.set((done, total)))
        .unwrap();
    assert!(bytes == body);
    assert_eq!(last.get(), (3 << 20, Some(3 << 20)));
    assert_eq!(server.seen()[0].header("accept-encoding"), Some("identity"));

    let dir = tempfile::tempdir().unwrap();
    let mut fetched = fetcher.fetch_file(&server.url("/x"), None, 3 << 20, dir.path(), &|| false, &|_, _| {}).unwrap();
    let mut read = Vec::new();
    fetched.file.read_to_end(&mut read).unwrap();
    assert!(read == body && std::fs::read(fetched.path()).unwrap() == body && !fetched.in_place);
    let meta = fetched.file.metadata().unwrap();
    assert_eq!((meta.mode() & 0o777, meta.nlink()), (0o600, 0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // The digest it reports is the one it accepts, and no other.
    let again = |digest| fetcher.fetch_bytes(&server.url("/x"), Some(digest), 3 << 20, &|| false, &|_, _| {});
    assert!(again(fetched.sha256).unwrap() == body);
    assert!(matches!(again([1; 32]), Err(FetchError::DigestMismatch { actual, .. }) if actual == fetched.sha256));
    let missing = fetcher.fetch_file(&server.url("/x"), None, 3 << 20, &dir.path().join("none"), &|| false, &|_, _| {});
    assert!(matches!(missing, Err(FetchError::Io { .. })));
}

#[test]
fn statuses() {
    for (status, word) in [
        ("404 Not Found", "check the URL"),
        ("410 Gone", "check the URL"),
        ("401 Unauthorized", "signed URL"),
        ("403 Forbidden", "expired"),
        ("400 Bad", "check the URL"),
        ("204 No Content", "no content"),
        ("304 Not Modified", "redirect"),
        ("302 Found", "where"),
        ("501 Not Implemented", "does not serve"),
    ] {
        let server = Server::start(move |_, stream| answer(stream, status, "", b""));
        let error = get(&fetcher(), &server.url("/x?sig=secret")).unwrap_err();
        let number: u16 = status[..3].parse().unwrap();
        assert!(matches!(error, FetchError::Status { status, .. } if status == number), "{status}: {error:?}");
        assert!(error.to_string().contains(word) && !error.to_string().contains("secret"), "{error}");
        assert_eq!(server.seen().len(), 1, "{status} is final");
    }
    for status in ["500 E", "502 E", "503 E", "429 Slow", "408 T"] {
        let server = Server::start(move |request, stream| match request.number {
            0 | 1 => answer(stream, status, "retry-after: 0", b"no"),
            _ => answer(stream, OK, "", b"yes"),
        });
        assert_eq!(get(&fetcher(), &server.url("/x")).unwrap(), b"yes", "{status}");
        assert_eq!(server.seen().len(), 3);
    }
}

#[test]
fn retry_after_is_honoured_within_bounds() {
    for (value, least) in
        [("99999999999999999999", 400), ("Fri, 31 Dec 9999 23:59:59 GMT", 400), ("0", 20), ("rubbish", 20)]
    {
        let server = Server::start(move |request, stream| match request.number {
            0 => answer(stream, "503 Busy", &format!("retry-after: {value}"), b""),
            _ => answer(stream, OK, "", b"yes"),
        });
        let start = Instant::now();
        assert_eq!(get(&fetcher(), &server.url("/x")).unwrap(), b"yes");
        assert!(start.elapsed() >= Duration::from_millis(least), "{value}: {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_millis(least + 1500), "{value}: {:?}", start.elapsed());
    }
}

#[test]
fn encoded_bodies_are_taken_as_served() {
    let zipped = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
    let server = Server::start(move |_, stream| answer(stream, OK, "content-encoding: gzip", &zipped));
    assert_eq!(get(&fetcher(), &server.url("/x")).unwrap(), zipped);
}

#[test]
fn every_stage_is_cancelled_within_a_second() {
    let silent = Server::unread(|_, _| std::thread::sleep(Duration::from_secs(4)));
    let stalled = Server::start(|_, stream| {
        send(stream, "200 OK\r\ncontent-length: 100", &[1; 50]);
        std::thread::sleep(Duration::from_secs(4));
    });
    let endless = Server::start(|_, stream| {
        send(stream, "200 OK\r\ncontent-length: 99999999999999", b"");
        while stream.write_all(&[7; 65536]).is_ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let busy = Server::start(|_, stream| answer(stream, "503 Busy", "retry-after: 60", b""));
    // Patient, so that nothing but the flag ends it.
    let network = Network {
        connect_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(60),
        ..Network::default()
    };
    let fetcher = Fetcher::new(Policy { network, ..Policy::run("/") }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (name, url) in [
        ("head", silent.url("/x")),
        ("body", stalled.url("/x")),
        ("pause", busy.url("/x")),
        ("tls", silent.url("/x").replace("http:", "https:")),
        // TEST-NET-1: no route, or no answer.
        ("connect", "http://192.0.2.1/x".to_owned()),
    ] {
        cancelled(name, |flag| fetcher.fetch_bytes(&url, None, 1 << 20, flag, &|_, _| {}).err());
    }
    cancelled("running", |flag| fetcher.fetch_bytes(&endless.url("/x"), None, u64::MAX, flag, &|_, _| {}).err());
    cancelled("file", |flag| fetcher.fetch_file(&stalled.url("/x"), None, 1 << 20, dir.path(), flag, &|_, _| {}).err());
}

#[test]
fn a_full_disk_says_what_is_needed_and_free() {
    let dir = tempfile::tempdir().unwrap();
    let mount =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path()).output();
    if !mount.as_ref().is_ok_and(|output| output.status.success()) {
        println!(
            "SKIPPED a_full_disk_says_what_is_needed_and_free: a small tmpfs can't be mounted here (it takes root)"
        );
        return;
    }
    let announced = Server::start(|_, stream| answer(stream, OK, "", &[1; 3 << 20]));
    let unannounced = Server::start(|_, stream| {
        send(
            stream,
            "200 OK\r\ntransfer-encoding: chunked",
            &[b"300000\r\n".as_slice(), &[7; 0x30_0000], b"\r\n0\r\n\r\n"].concat(),
        );
    });
    let fetcher = fetcher();
    let into =
        |server: &Server, dir: &Path| fetcher.fetch_file(&server.url("/x"), None, 1 << 30, dir, &|| false, &|_, _| {});
    let before = into(&announced, dir.path());
    let during = into(&unannounced, dir.path());
    let full = std::fs::write(dir.path().join("rest"), vec![0; 2 << 20]);
    let none = into(&unannounced, dir.path());
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(std::process::Command::new("umount").arg(dir.path()).status().unwrap().success());
    assert!(matches!(before, Err(FetchError::DiskFull { need: 3_145_728, have, .. }) if have <= 1 << 20), "{before:?}");
    assert!(matches!(during, Err(FetchError::DiskFull { need, .. }) if need > 1 << 20), "{during:?}");
    assert!(full.is_err() && left == 1 && matches!(none, Err(FetchError::DiskFull { have: 0, .. })), "{none:?}");
    let error = before.unwrap_err();
    assert!(error.to_string().contains("3145728 bytes are needed") && error.class() == ErrorClass::Machine, "{error}");
}

#[test]
fn fetches_run_side_by_side_and_within_a_foreign_runtime() {
    let server = Server::start(|_, stream| {
        std::thread::sleep(Duration::from_millis(300));
        answer(stream, OK, "", b"slow");
    });
    let fetcher = fetcher();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(get(&fetcher, &server.url("/x")).unwrap(), b"slow"));
        }
    });
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let fetcher = crate::hostile::fetcher();
        assert_eq!(get(&fetcher, &server.url("/x")).unwrap(), b"slow");
        drop(fetcher);
    });
}

/// Limits without end must not overflow.
#[test]
fn endless_patience_works() {
    let server = Server::start(|request, stream| match request.number {
        0 => answer(stream, "503 Busy", "retry-after: 0", b""),
        _ => answer(stream, OK, "", b"yes"),
    });
    let retries = Retries { cap: Duration::MAX, retry_after_cap: Duration::MAX, ..impatient().retries };
    let network = Network {
        connect_timeout: Duration::MAX,
        idle_timeout: Duration::MAX,
        total_timeout: Duration::MAX,
        retries,
        ..Network::default()
    };
    let fetcher = Fetcher::new(Policy { network, ..Policy::run("/") }).unwrap();
    assert_eq!(get(&fetcher, &server.url("/x")).unwrap(), b"yes");
    let absurd = Server::start(|_, stream| answer(stream, "503 Busy", "retry-after: 99999999999999999999", b""));
    let error = get(&fetcher, &absurd.url("/x")).unwrap_err();
    assert!(matches!(error, FetchError::TimedOut { .. }), "{error:?}");
}
