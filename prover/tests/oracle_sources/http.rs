//! Over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Place, assert_proved, chain, digest, file, pinned, write};

/// A server of the chain fixture's folder; it notes what it was asked for.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let Some(name) = lines.next().and_then(|line| Some(line.split(' ').nth(1)?[1..].to_owned())) else {
                    continue;
                };
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let (status, body) = match std::fs::read(chain("bn128").join(&name)) {
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                notes.lock().unwrap().push(name);
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                // A client may go away.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            }
        });
        Self { address, asked }
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    fn times(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == name).count()
    }
}

#[test]
fn a_key_with_its_digest_is_fetched_once() {
    let (place, server) = (Place::new(), Server::start());
    let sha256 = digest(&chain("bn128").join("chain.zkey"));
    let input = pinned(&server.url("chain.wtns"), &digest(&chain("bn128").join("chain.wtns")));
    write(&place, &pinned(&server.url("chain.zkey"), &sha256), &input);
    for times in 1..=2 {
        place.run(&["run", "-f", "manifest.yaml"]).expect(0);
        assert_proved(&place);
        assert_eq!((server.times("chain.zkey"), server.times("chain.wtns")), (1, times));
    }
    // Imported from a file, it is not fetched at all.
    let place = Place::new();
    place.run(&["import", chain("bn128").join("chain.zkey").to_str().unwrap()]).expect(0);
    write(&place, &pinned(&server.url("chain.zkey"), &sha256), &file(chain("bn128").join("chain.wtns")));
    place.run(&["run", "-f", "manifest.yaml"]).expect(0);
    assert_proved(&place);
    assert_eq!(server.times("chain.zkey"), 1);
    // Without a digest, the server may have another key by now.
    write(&place, &format!("{{url: \"{}\"}}", server.url("chain.zkey")), &input);
    place.run(&["run", "-f", "manifest.yaml"]).expect(0);
    assert_proved(&place);
    assert_eq!(server.times("chain.zkey"), 2);
}

#[test]
fn a_wrong_digest_is_refused() {
    let (place, server) = (Place::new(), Server::start());
    let wrong = "0123456789abcdef".repeat(4);
    let zkey = digest(&chain("bn128").join("chain.zkey"));
    let wtns = digest(&chain("bn128").join("chain.wtns"));
    for (zkey, wtns, right, reason) in [(&wrong, &wtns, &zkey, "BadKey"), (&zkey, &wrong, &wtns, "BadInput")] {
        write(&place, &pinned(&server.url("chain.zkey"), zkey), &pinned(&server.url("chain.wtns"), wtns));
        place.run(&["run", "-f", "manifest.yaml"]).expect(3).says(reason).says(&wrong).says(right);
        assert!(!place.path().join("proofs/j/proof.json").exists());
    }
}

#[test]
fn what_is_not_there_is_told() {
    let (place, server) = (Place::new(), Server::start());
    let wtns = file(chain("bn128").join("chain.wtns"));
    write(&place, &format!("{{url: \"{}\"}}", server.url("gone.zkey")), &wtns);
    place.run(&["run", "-f", "manifest.yaml"]).expect(3).says("gone.zkey").says("404");
    // Nobody listens on the port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/chain.zkey");
    write(&place, &format!("{{url: \"{url}\"}}"), &wtns);
    let begun = Instant::now();
    place.run(&["run", "-f", "manifest.yaml"]).expect(3).says("Unavailable").says(&url);
    assert!(begun.elapsed() < Duration::from_secs(60), "it took {:?}", begun.elapsed());
}
