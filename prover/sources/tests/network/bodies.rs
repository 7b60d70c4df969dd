//! Bodies that break off, go on, stall, or are not as long as announced.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::fetching::{content, get, impatient};
use crate::hostile::{OK, Server, answer, fetcher, send, with_retries};
use proofmill_sources::policy::Network;
use proofmill_sources::{ErrorClass, FetchError, Fetcher, Policy};

/// What a server does with the continuation of a body that broke off after 1000 of 3000 bytes.
struct Continuation {
    name: &'static str,
    /// Headers of the first answer.
    first: &'static str,
    /// The range that the second request must have.
    range: Option<&'static str>,
    second: fn(&[u8], &mut TcpStream),
    /// Requests in all.
    requests: usize,
}

#[test]
fn interrupted_bodies_go_on_or_start_over() {
    const TAG: &str = "etag: \"v1\"";
    let cases = [
        Continuation {
            name: "strong tag",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| {
                answer(stream, "206 Partial", "content-range: bytes 1000-2999/3000\r\netag: \"v1\"", &body[1000..])
            },
            requests: 2,
        },
        Continuation {
            name: "old date",
            first: "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\ndate: Mon, 07 Nov 1994 08:49:37 GMT",
            range: Some("Sun, 06 Nov 1994 08:49:37 GMT"),
            second: |body, stream| answer(stream, "206 Partial", "content-range: bytes 1000-2999/*", &body[1000..]),
            requests: 2,
        },
        Continuation {
            name: "no tag",
            first: "x-a: b",
            range: None,
            second: |body, stream| answer(stream, OK, "", body),
            requests: 2,
        },
        Continuation {
            name: "weak tag",
            first: "etag: W/\"v1\"",
            range: None,
            second: |body, stream| answer(stream, OK, "", body),
            requests: 2,
        },
        Continuation {
            name: "date of this very moment",
            first: "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\ndate: Sun, 06 Nov 1994 08:49:38 GMT",
            range: None,
            second: |body, stream| answer(stream, OK, "", body),
            requests: 2,
        },
        Continuation {
            name: "200 to a range",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| answer(stream, OK, TAG, body),
            requests: 2,
        },
        Continuation {
            name: "wrong start",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| answer(stream, "206 Partial", "content-range: bytes 900-2999/3000", &body[900..]),
            requests: 3,
        },
        Continuation {
            name: "wrong total",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| answer(stream, "206 Partial", "content-range: bytes 1000-2999/4000", &body[1000..]),
            requests: 3,
        },
        Continuation {
            name: "no Content-Range",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| answer(stream, "206 Partial", "", &body[1000..]),
            requests: 3,
        },
        Continuation {
            name: "nonsense Content-Range",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| {
                answer(stream, "206 Partial", "content-range: bytes 1000-99999999999999999999/3000", &body[1000..])
            },
            requests: 3,
        },
        Continuation {
            name: "part of another version",
            first: TAG,
            range: Some("\"v1\""),
            second: |body, stream| {
                answer(stream, "206 Partial", "content-range: bytes 1000-2999/3000\r\netag: \"v2\"", &body[1000..])
            },
            requests: 3,
        },
        Continuation {
            name: "416",
            first: TAG,
            range: Some("\"v1\""),
            second: |_, stream| answer(stream, "416 No", "", b""),
            requests: 3,
        },
    ];
    for case in cases {
        let body = content(3000);
        let served = body.clone();
        let server = Server::start(move |request, stream| match request.number {
            // The length is a lie: 1000 bytes come.
            0 => send(stream, &format!("200 OK\r\ncontent-length: 3000\r\n{}", case.first), &served[..1000]),
            1 => (case.second)(&served, stream),
            _ => answer(stream, OK, "", &served),
        });
        let bytes = get(&fetcher(), &server.url("/x")).expect(case.name);
        assert!(bytes == body, "{}: {} bytes", case.name, bytes.len());
        let seen = server.seen();
        assert_eq!(seen.len(), case.requests, "{}", case.name);
        assert_eq!(seen[1].header("range"), case.range.map(|_| "bytes=1000-"), "{}", case.name);
        assert_eq!(seen[1].header("if-range"), case.range, "{}", case.name);
        assert!(seen.len() < 3 || seen[2].header("range").is_none(), "{}", case.name);
    }
}

#[test]
fn a_content_replaced_during_a_resume_is_not_mixed() {
    let server = Server::start(|request, stream| match request.number {
        0 => send(stream, "200 OK\r\ncontent-length: 3000\r\netag: \"v1\"", &[1; 1000]),
        1 => send(stream, "200 OK\r\ncontent-length: 2000\r\netag: \"v2\"", &[2; 500]),
        _ => answer(stream, "206 P", "content-range: bytes 500-1999/2000\r\netag: \"v2\"", &[2; 1500]),
    });
    let dir = tempfile::tempdir().unwrap();
    let fetched = fetcher().fetch_file(&server.url("/x"), None, 1 << 20, dir.path(), &|| false, &|_, _| {}).unwrap();
    assert!(std::fs::read(fetched.path()).unwrap() == vec![2; 2000]);
    let seen = server.seen();
    assert_eq!((seen.len(), seen[2].header("if-range")), (3, Some("\"v2\"")));
}

#[test]
fn unasked_parts_are_not_taken_for_the_whole() {
    let server = Server::start(|_, stream| answer(stream, "206 P", "content-range: bytes 0-9/100", &[1; 10]));
    let error = get(&fetcher(), &server.url("/x")).unwrap_err();
    assert!(matches!(error, FetchError::Unavailable { attempts: 4, .. }), "{error:?}");
}

#[test]
fn servers_that_never_deliver_are_given_up() {
    let short = Server::start(|_, stream| send(stream, "200 OK\r\ncontent-length: 100", &[1; 50]));
    let stalled = Server::start(|_, stream| {
        send(stream, "200 OK\r\ncontent-length: 100", &[1; 50]);
        std::thread::sleep(Duration::from_secs(3));
    });
    let silent = Server::start(|_, _| std::thread::sleep(Duration::from_secs(6)));
    let closed = Server::start(|_, _| {});
    // Closing with unread bytes makes the kernel send a reset.
    let reset = Server::unread(|_, stream| send(stream, "200 OK\r\ncontent-length: 100", &[1; 50]));
    let garbage = Server::start(|_, stream| send(stream, "\0\0\x16\x03 nonsense", &[0; 100]));
    let chunks = Server::start(|_, stream| send(stream, "200 OK\r\ntransfer-encoding: chunked", b"zzz\r\nnot a chunk"));
    let lengths =
        Server::start(|_, stream| send(stream, "200 OK\r\ncontent-length: 5\r\ncontent-length: 6", b"abcdef"));
    let header_bomb = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        for i in 0..100_000 {
            if stream.write_all(format!("x-{i}: {}\r\n", "a".repeat(1000)).as_bytes()).is_err() {
                return;
            }
        }
    });
    let slowloris = Server::start(|_, stream| {
        for byte in "HTTP/1.1 200 OK\r\nx-slow: ".bytes().chain(std::iter::repeat(b'a')) {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    for (name, server, word) in [
        ("short", &short, "body"),
        ("stalled", &stalled, "no more bytes"),
        ("silent", &silent, "no answer"),
        ("closed", &closed, ""),
        ("reset", &reset, ""),
        ("garbage", &garbage, ""),
        ("chunks", &chunks, ""),
        ("two lengths", &lengths, ""),
        ("header bomb", &header_bomb, ""),
        ("slowloris", &slowloris, "no answer"),
    ] {
        let start = Instant::now();
        let error = get(&with_retries(1), &server.url("/x")).expect_err(name);
        assert!(matches!(&error, FetchError::Unavailable { attempts: 2, .. }), "{name}: {error:?}");
        assert!(error.to_string().contains(word), "{name}: {error}");
        assert_eq!(error.class(), ErrorClass::Unavailable);
        assert!(start.elapsed() < Duration::from_secs(10), "{name}: {:?}", start.elapsed());
        assert_eq!(server.seen().len(), 2, "{name}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("http://{nobody}/x"), "http://no-such-host.invalid/x".to_owned()] {
        let error = get(&with_retries(1), &url).unwrap_err();
        assert!(matches!(error, FetchError::Unavailable { attempts: 2, .. }), "{error:?}");
    }
}

#[test]
fn a_stall_and_a_reset_are_survived() {
    let body = content(3000);
    let served = body.clone();
    let server = Server::start(move |request, stream| {
        let from = request.number * 1000;
        let head = match request.number {
            0 => "200 OK\r\ncontent-length: 3000\r\netag: \"v\"".to_owned(),
            _ => format!(
                "206 P\r\ncontent-length: {}\r\netag: \"v\"\r\ncontent-range: bytes {from}-2999/3000",
                3000 - from
            ),
        };
        send(stream, &head, &served[from..from + 1000]);
        if request.number == 0 {
            std::thread::sleep(Duration::from_secs(2));
        }
    });
    assert!(get(&fetcher(), &server.url("/x")).unwrap() == body);
    assert_eq!(server.seen().len(), 3);
}

/// A body longer than its Content-Length must not become the answer to the next request.
#[test]
fn bytes_beyond_the_announced_length_go_nowhere() {
    let server = Server::start(|_, stream| {
        let second = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
        send(stream, "200 OK\r\ncontent-length: 4", format!("good{second}").as_bytes());
        let mut rest = [0; 4096];
        while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
    });
    let fetcher = fetcher();
    for _ in 0..5 {
        assert_eq!(get(&fetcher, &server.url("/x")).unwrap(), b"good");
    }
}

#[test]
fn a_trickle_ends_at_the_total_limit() {
    let server = Server::start(|_, stream| {
        send(stream, "200 OK\r\ncontent-length: 100000", b"");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let network = Network { total_timeout: Duration::from_secs(1), ..impatient() };
    let fetcher = Fetcher::new(Policy { network, ..Policy::run("/") }).unwrap();
    let start = Instant::now();
    let error = get(&fetcher, &server.url("/x")).unwrap_err();
    assert!(matches!(error, FetchError::TimedOut { .. }), "{error:?}");
    assert!(start.elapsed() < Duration::from_millis(1800), "{:?}", start.elapsed());
}

#[test]
fn endless_and_oversized_bodies_stop_at_the_limit() {
    let endless = Server::start(|_, stream| {
        send(stream, "200 OK\r\ntransfer-encoding: chunked", b"");
        let chunk = [b"10000\r\n".as_slice(), &[7; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
    });
    let announced = Server::start(|_, stream| send(stream, "200 OK\r\ncontent-length: 4611686018427387904", &[0; 10]));
    let exact = Server::start(|_, stream| answer(stream, OK, "", &[1; 1000]));
    let fetcher = fetcher();
    let dir = tempfile::tempdir().unwrap();
    for (server, size) in [(&endless, None), (&announced, Some(1 << 62))] {
        let error = fetcher.fetch_bytes(&server.url("/x"), None, 1 << 20, &|| false, &|_, _| {}).unwrap_err();
        assert!(
            matches!(error, FetchError::TooLarge { size: found, limit: 1_048_576, .. } if found == size),
            "{error:?}"
        );
        let error =
            fetcher.fetch_file(&server.url("/x"), None, 1 << 20, dir.path(), &|| false, &|_, _| {}).unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { .. }), "{error:?}");
        assert_eq!(server.seen().len(), 2, "no retries");
    }
    let limited = |limit| fetcher.fetch_bytes(&exact.url("/x"), None, limit, &|| false, &|_, _| {});
    assert_eq!(limited(1000).unwrap().len(), 1000);
    assert!(matches!(limited(999), Err(FetchError::TooLarge { size: Some(1000), .. })));
}
