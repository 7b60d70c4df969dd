//! An HTTP server for keys and inputs, with faults.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// The address of the node, which pods reach.
const NODE: &str = "198.18.255.1";

/// Serves the fixtures until the process ends.
pub struct Files(String);

impl Files {
    pub fn serve() -> Self {
        let listener = TcpListener::bind((NODE, 0)).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    // A client may leave when it likes.
                    let _ = answer(stream);
                });
            }
        });
        Self(base)
    }

    /// The URL of a path: a fixture, or one of the faults below.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.0)
    }
}

/// A fixture of the chain circuit.
pub fn chain(curve: &str, name: &str) -> PathBuf {
    PathBuf::from("../tests/fixtures/circom/chain").join(curve).join(name)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}\r\n");
    match path.as_str() {
        "stall" => {
            write!(stream, "{}", head("200 OK", "content-length: 1000\r\n"))?;
            std::thread::sleep(Duration::from_secs(600));
        }
        "metadata" => write!(stream, "{}", head("302 Found", "location: http://169.254.169.254/latest\r\n"))?,
        "huge" => write!(stream, "{}", head("200 OK", "content-length: 99999999999999\r\n"))?,
        _ => match std::fs::read(PathBuf::from("../tests/fixtures/circom").join(&path)) {
            Ok(bytes) => {
                write!(stream, "{}", head("200 OK", &format!("content-length: {}\r\n", bytes.len())))?;
                stream.write_all(&bytes)?;
            }
            Err(_) => write!(stream, "{}", head("404 Not Found", "content-length: 0\r\n"))?,
        },
    }
    Ok(())
}
