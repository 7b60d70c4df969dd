//! A server that does whatever a test wants with its connections.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::fetching::impatient;
use proofmill_sources::policy::{Network, Retries};
use proofmill_sources::{FetchError, Fetcher, Policy};

/// The status of most answers.
pub const OK: &str = "200 OK";

pub type Handler = dyn Fn(&Request, &mut TcpStream) + Send + Sync;

#[derive(Clone, Debug)]
pub struct Request {
    pub target: String,
    pub headers: BTreeMap<String, String>,
    /// Count of earlier requests.
    pub number: usize,
}

pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Server {
    pub fn start(handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1", handler)
    }

    pub fn at(ip: &str, handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::raw(ip, Arc::new(handler), true)
    }

    /// One that is not sent requests' heads first: `Request` is empty.
    pub fn unread(handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::raw("127.0.0.1", Arc::new(handler), false)
    }

    fn raw(ip: &str, handler: Arc<Handler>, read: bool) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (log, stopped) = (requests.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (handler, log, mut stream) = (handler.clone(), log.clone(), stream.unwrap());
                std::thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let head = if read { read_head(&mut stream) } else { Some((String::new(), BTreeMap::new())) };
                    let Some((target, headers)) = head else { return };
                    let request = {
                        let mut log = log.lock().unwrap();
                        let request = Request { target, headers, number: log.len() };
                        log.push(request.clone());
                        request
                    };
                    handler(&request, &mut stream);
                });
            }
        });
        Self { address, requests, stop }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.requests.lock().unwrap().clear();
    }

    pub fn seen(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads a request's head.
pub fn read_head(stream: &mut impl Read) -> Option<(String, BTreeMap<String, String>)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { return Some((target, headers)) };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
}

/// Sends a head and a body; a client that has gone is no matter.
pub fn send(stream: &mut impl Write, head: &str, body: &[u8]) {
    let _ = stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes());
    let _ = stream.write_all(body);
    let _ = stream.flush();
}

/// A whole answer.
pub fn answer(stream: &mut impl Write, status: &str, headers: &str, body: &[u8]) {
    let headers = if headers.is_empty() { String::new() } else { format!("\r\n{headers}") };
    send(stream, &format!("{status}\r\nconnection: close\r\ncontent-length: {}{headers}", body.len()), body);
}

pub fn fetcher() -> Fetcher {
    Fetcher::new(Policy { network: impatient(), ..Policy::run("/") }).unwrap()
}

pub fn with_retries(count: u32) -> Fetcher {
    let network = impatient();
    let network = Network { retries: Retries { count, ..network.retries.clone() }, ..network };
    Fetcher::new(Policy { network, ..Policy::run("/") }).unwrap()
}

/// Runs `work` with a flag that turns true after 300 ms; it must end as cancelled within a second of that.
pub fn cancelled(name: &str, work: impl FnOnce(&dyn Fn() -> bool) -> Option<FetchError>) {
    let start = Instant::now();
    let flag = || start.elapsed() > Duration::from_millis(300);
    let error = work(&flag);
    let took = start.elapsed();
    assert!(matches!(error, Some(FetchError::Cancelled { .. })), "{name}: {error:?}");
    assert!(took > Duration::from_millis(290) && took < Duration::from_millis(1300), "{name}: {took:?}");
}
