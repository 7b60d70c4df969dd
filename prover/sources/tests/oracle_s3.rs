//! S3 against moto, a real S3 server in Python. `tests/all` installs it and names it in `PROOFMILL_TEST_MOTO`.

#![cfg(feature = "object-store")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hostile::{content, get, impatient};
use proofmill_sources::policy::ObjectOptions;
use proofmill_sources::{FetchError, Fetcher, Policy};

fn fetcher(endpoint: &str) -> Fetcher {
    let options = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let object_options = ObjectOptions(options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    Fetcher::new(Policy { network: impatient(), object_options, ..Policy::run("/") }).unwrap()
}

/// A moto server that ends with the test.
struct Moto(Child, String);

impl Moto {
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("PROOFMILL_TEST_MOTO") else {
            println!(
                "SKIPPED s3_against_moto: PROOFMILL_TEST_MOTO does not name a moto_server (pip install 'moto[server]')"
            );
            return None;
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Self(child, format!("127.0.0.1:{port}"));
        let start = Instant::now();
        while TcpStream::connect(&moto.1).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "moto does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(moto)
    }

    fn put(&self, path: &str, body: &[u8]) {
        let mut stream = TcpStream::connect(&self.1).unwrap();
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\nauthorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n",
            self.1,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn s3_against_moto() {
    let Some(moto) = Moto::start() else { return };
    let body = content(5 << 20);
    moto.put("/keys", b"");
    moto.put("/keys/folder/a%20key.zkey", &body);
    let fetcher = fetcher(&format!("http://{}", moto.1));
    assert!(get(&fetcher, "s3://keys/folder/a%20key.zkey").unwrap() == body);
    let dir = tempfile::tempdir().unwrap();
    let last = std::cell::Cell::new((0, None));
    let fetched = fetcher
        .fetch_file("s3://keys/folder/a%20key.zkey", None, 5 << 20, dir.path(), &|| false, &|done, total| {
            last.set((done, total))
        })
        .unwrap();
    assert!(std::fs::read(fetched.path()).unwrap() == body);
    assert_eq!(last.get(), (5 << 20, Some(5 << 20)));
    let digest = fetcher.fetch_bytes("s3://keys/folder/a%20key.zkey", Some([3; 32]), 5 << 20, &|| false, &|_, _| {});
    assert!(matches!(digest, Err(FetchError::DigestMismatch { actual, .. }) if actual == fetched.sha256));
    let small = fetcher.fetch_bytes("s3://keys/folder/a%20key.zkey", None, 1000, &|| false, &|_, _| {});
    assert!(matches!(small, Err(FetchError::TooLarge { size: Some(size), .. }) if size == 5 << 20));
    for url in ["s3://keys/none", "s3://missing/none"] {
        let error = get(&fetcher, url).unwrap_err();
        assert!(matches!(error, FetchError::NotFound { .. }), "{error:?}");
    }
}
