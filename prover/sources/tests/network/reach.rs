//! Where HTTP requests may go and what they may tell: redirects, internal addresses, allow-lists, proxies, secrets.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::fetching::{get, impatient};
use crate::hostile::{OK, Server, answer, fetcher, send, with_retries};
use proofmill_sources::policy::{Addresses, Allow, Network, ProxySettings};
use proofmill_sources::{FetchError, Fetcher, Policy};

#[test]
fn redirects_are_followed_counted_and_checked() {
    let server = Server::start(|request, stream| {
        let redirect = |to: &str, stream: &mut TcpStream| answer(stream, "302 Found", &format!("location: {to}"), b"");
        match request.target.as_str() {
            "/a?sig=1" => redirect("b/../c", stream),
            "/c" => redirect("?final", stream),
            "/c?final" => answer(stream, "200 OK", "", b"there"),
            "/endless" => redirect(&format!("/endless?{}", request.number), stream),
            target if target.starts_with("/endless") => redirect(&format!("/endless?{}", request.number), stream),
            "/loop" => redirect("/loop", stream),
            "/file" => redirect("file:///etc/passwd?secret", stream),
            "/ftp" => redirect("ftp://h/x", stream),
            _ => redirect("http://[bad", stream),
        }
    });
    let fetcher = fetcher();
    let with_user = server.url("/a?sig=1").replace("http://", "http://user:secret@");
    assert_eq!(get(&fetcher, &with_user).unwrap(), b"there");
    let seen = server.seen();
    assert!(seen[0].header("authorization").is_some(), "the URL's own credentials are sent");
    assert!(seen[1..].iter().all(|request| request.header("referer").is_none()));
    let elsewhere = server.url("/c?final");
    let other = Server::start(move |_, stream| answer(stream, "302 Found", &format!("location: {elsewhere}"), b""));
    assert_eq!(get(&fetcher, &other.url("/x").replace("http://", "http://user:secret@")).unwrap(), b"there");
    assert!(other.seen()[0].header("authorization").is_some());
    assert!(server.seen()[3].header("authorization").is_none(), "but not to another server");
    for (path, word) in [
        ("/endless", "more than 5 redirects"),
        ("/loop", "more than 5 redirects"),
        ("/file", "scheme file"),
        ("/ftp", "scheme ftp"),
        ("/bad", "no URL"),
    ] {
        let before = server.seen().len();
        let error = get(&fetcher, &server.url(path)).unwrap_err();
        assert!(matches!(error, FetchError::Redirect { .. }) && error.to_string().contains(word), "{path}: {error}");
        assert!(!error.to_string().contains("secret"));
        assert!(server.seen().len() - before <= 6);
    }
}

#[test]
fn jobs_are_not_led_to_internal_addresses() {
    let trap = Server::start(|_, stream| answer(stream, OK, "", b"internal"));
    let port = trap.address.port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "127.0.0.1.",
        "localhost",
        "LOCALHOST",
        "foo@localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
    ];
    let policy = || Policy {
        network: impatient(),
        addresses: Addresses::NoInternal { except: vec!["127.0.0.2".parse().unwrap()] },
        ..Policy::run("/")
    };
    let fetcher = Fetcher::new(policy()).unwrap();
    for host in hosts {
        let target = format!("http://{host}:{port}/latest?secret");
        let location = target.clone();
        let bouncer =
            Server::at("127.0.0.2", move |_, stream| answer(stream, "307 Go", &format!("location: {location}"), b""));
        for url in [target.clone(), bouncer.url("/x")] {
            let start = Instant::now();
            let error = get(&fetcher, &url).expect_err(host);
            let told = matches!(error, FetchError::ForbiddenAddress { .. });
            // A header may not hold every character.
            assert!(
                told || (host.starts_with('１')
                    && matches!(error, FetchError::Status { .. } | FetchError::Redirect { .. })),
                "{host}: {error:?}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
            assert!(start.elapsed() < Duration::from_secs(2));
        }
    }
    assert_eq!(trap.seen().len(), 0, "nothing may reach the internal server");
    // The guard is what kept them away: without it the trap answers.
    assert_eq!(get(&crate::hostile::fetcher(), &trap.url("/x")).unwrap(), b"internal");
    let open = Server::at("127.0.0.2", |_, stream| answer(stream, OK, "", b"open"));
    assert_eq!(get(&fetcher, &open.url("/x")).unwrap(), b"open");
    // Literals are refused at submission already.
    assert!(matches!(fetcher.check(&trap.url("/x")), Err(FetchError::ForbiddenAddress { .. })));
}

#[test]
fn every_hop_is_held_against_the_allow_list() {
    let server = Server::start(|request, stream| match request.target.as_str() {
        "/in/a" => answer(stream, "302 Go", "location: /in/b", b""),
        "/in/b" => answer(stream, OK, "", b"in"),
        "/in/out" => answer(stream, "302 Go", "location: /out/secret", b""),
        _ => answer(stream, OK, "", b"out"),
    });
    let urls = Allow::Only(vec![server.url("/in")]);
    let fetcher = Fetcher::new(Policy { urls, network: impatient(), ..Policy::run("/") }).unwrap();
    assert_eq!(get(&fetcher, &server.url("/in/a")).unwrap(), b"in");
    for path in ["/in/out", "/out/x", "/in/../out/x", "/in/%2e%2e/out", "/in/..%2fout", "/inx"] {
        let error = get(&fetcher, &server.url(path)).expect_err(path);
        assert!(matches!(error, FetchError::NotAllowed { .. }), "{path}: {error:?}");
    }
    assert!(server.seen().iter().all(|request| request.target.starts_with("/in/")));
}

#[test]
fn proxies_are_used_as_told() {
    let proxy =
        Server::start(|request, stream| answer(stream, OK, "", format!("proxied {}", request.target).as_bytes()));
    let direct = Server::at("127.0.0.2", |_, stream| answer(stream, OK, "", b"direct"));
    let network = Network {
        proxy: ProxySettings {
            http: Some(format!("user:secret@{}", proxy.address)),
            https: Some(format!("http://{}", proxy.address)),
            no_proxy: Some("127.0.0.2,other.invalid".to_owned()),
        },
        ..impatient()
    };
    let addresses = Addresses::NoInternal { except: vec!["127.0.0.2".parse().unwrap()] };
    let fetcher = Fetcher::new(Policy { network: network.clone(), addresses, ..Policy::run("/") }).unwrap();
    assert!(!format!("{fetcher:?}").contains("secret"));
    // The proxy itself may be internal; a name that only it can resolve is its business.
    assert_eq!(get(&fetcher, "http://store.invalid/x").unwrap(), b"proxied http://store.invalid/x");
    assert!(proxy.seen()[0].header("proxy-authorization").is_some());
    assert_eq!(get(&fetcher, &direct.url("/x")).unwrap(), b"direct");
    for url in ["http://localhost/x", "http://169.254.169.254/x", "http://[::ffff:127.0.0.1]/x"] {
        let error = get(&fetcher, url).unwrap_err();
        assert!(matches!(error, FetchError::ForbiddenAddress { .. }), "{url}: {error:?}");
    }
    assert_eq!(proxy.seen().len(), 1);
    for (bad, word) in [("socks5://h:1", "only http"), ("http://u:secret@[", "proxy")] {
        let proxy = ProxySettings { http: Some(bad.to_owned()), ..ProxySettings::default() };
        let network = Network { proxy, ..impatient() };
        let error = Fetcher::new(Policy { network, ..Policy::run("/") }).unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn secrets_of_urls_stay_out_of_errors() {
    let server = Server::start(|request, stream| match request.target.as_str() {
        "/500?sig=secret" => answer(stream, "500 No", "", b"secret"),
        "/cut?sig=secret" => send(stream, "200 OK\r\ncontent-length: 10", b"x"),
        "/to?sig=secret" => answer(stream, "302 Go", "location: http://u:secret@127.0.0.1:1/x?secret", b""),
        _ => answer(stream, OK, "", b"content"),
    });
    let fetcher = with_retries(1);
    let user = |path: &str| server.url(path).replace("http://", "http://me:secret@");
    for url in [
        user("/500?sig=secret"),
        user("/cut?sig=secret"),
        user("/to?sig=secret"),
        "http://me:secret@no.invalid/?secret".to_owned(),
        "http://me:secret@127.0.0.1:1/#secret".to_owned(),
        "http://me:se/secret@host/".to_owned(),
        "http://me:secret@ho st/".to_owned(),
        "gopher://me:secret@host/?secret".to_owned(),
        "http:me:secret@host".to_owned(),
        "http://[secret".to_owned(),
    ] {
        let error = get(&fetcher, &url).expect_err(&url);
        let told = format!("{error} {error:?}");
        assert!(!told.contains("secret") || url.contains("[secret"), "{url}: {told}");
    }
    let error = fetcher.fetch_bytes(&user("/x?secret"), Some([0; 32]), 100, &|| false, &|_, _| {}).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}
