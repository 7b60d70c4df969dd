//! moto, a real S3 server in Python, where `PROOFMILL_TEST_MOTO` names its `moto_server`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A moto server that ends with the test.
pub struct Moto(Child, String);

impl Moto {
    /// Starts one, or says that the test of that name is skipped.
    pub fn start(test: &str) -> Option<Self> {
        let Some(program) = std::env::var_os("PROOFMILL_TEST_MOTO") else {
            println!("SKIPPED {test}: PROOFMILL_TEST_MOTO does not name a moto_server (pip install 'moto[server]')");
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

    /// What `AWS_ENDPOINT_URL` is set to.
    pub fn url(&self) -> String {
        format!("http://{}", self.1)
    }

    /// Makes a bucket, or puts an object into one.
    pub fn put(&self, path: &str, body: &[u8]) {
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
