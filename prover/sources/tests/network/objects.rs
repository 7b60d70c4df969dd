//! Object stores against a server that misbehaves.

use std::time::Duration;

use crate::fetching::{content, get, impatient};
use crate::hostile::{Server, answer, cancelled, send};
use proofmill_sources::policy::{Addresses, Allow, Network, ObjectOptions, Retries};
use proofmill_sources::{ErrorClass, FetchError, Fetcher, Policy};

fn options(endpoint: &str) -> ObjectOptions {
    let pairs = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "verysecret"),
        ("AWS_REGION", "us-east-1"),
        // What an environment has besides.
        ("AWS_PAGER", "less"),
        ("PATH", "/bin"),
    ];
    ObjectOptions(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn fetcher(endpoint: &str) -> Fetcher {
    let policy = Policy {
        network: impatient(),
        object_options: options(endpoint),
        urls: Allow::Only(vec!["s3://keys".to_owned(), "s3://missing".to_owned()]),
        // Endpoints are settings, not the job's: the guard does not concern them.
        addresses: Addresses::NoInternal { except: Vec::new() },
        ..Policy::run("/")
    };
    Fetcher::new(policy).unwrap()
}

#[test]
fn buckets_must_be_listed() {
    let server = Server::start(|_, stream| answer(stream, "200 OK", "", b"x"));
    let fetcher = fetcher(&server.url(""));
    for url in ["s3://other/x", "gs://keys/x", "az://keys/x", "s3://keys-2/x"] {
        assert!(matches!(get(&fetcher, url), Err(FetchError::NotAllowed { .. })), "{url}");
        assert!(fetcher.check(url).is_err());
    }
    for url in [
        "s3://keys",
        "s3://keys/",
        "s3://keys/../other/x",
        "s3://keys/%2e%2e/x",
        "s3://evil.com#/x",
        "s3://u:secret@keys/x",
    ] {
        let error = get(&fetcher, url).expect_err(url);
        assert!(
            matches!(error, FetchError::BadUrl { .. }) && !error.to_string().contains("secret"),
            "{url}: {error:?}"
        );
    }
    assert_eq!(server.seen().len(), 0);
    // Nothing is listed at first.
    let error = Fetcher::new(Policy::serve(None)).unwrap().check("s3://keys/x").unwrap_err();
    assert!(error.to_string().contains("the list is empty"), "{error}");
}

const META: &str = "last-modified: Sun, 06 Nov 1994 08:49:37 GMT";

#[test]
fn interrupted_objects_go_on() {
    let body = content(3000);
    let served = body.clone();
    let server = Server::start(move |request, stream| match request.number {
        0 => send(stream, &format!("200 OK\r\n{META}\r\netag: \"v1\"\r\ncontent-length: 3000"), &served[..1000]),
        1 => answer(stream, "503 Slow Down", "", b"<Error><Code>SlowDown</Code></Error>"),
        2 => answer(
            stream,
            "206 P",
            &format!("{META}\r\netag: \"v1\"\r\ncontent-range: bytes 1000-2999/3000"),
            &served[1000..],
        ),
        _ => answer(stream, "404 No", "", b""),
    });
    assert!(get(&fetcher(&server.url("")), "s3://keys/x").unwrap() == body);
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].target, "/keys/x");
    assert!(seen[0].header("authorization").is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256")));
    assert_eq!((seen[2].header("range"), seen[2].header("if-match")), (Some("bytes=1000-"), Some("\"v1\"")));
}

#[test]
fn a_replaced_object_starts_over() {
    let server = Server::start(|request, stream| match (request.number, request.header("if-match")) {
        (0, _) => send(stream, &format!("200 OK\r\n{META}\r\netag: \"v1\"\r\ncontent-length: 3000"), &[1; 1000]),
        (_, Some(_)) => answer(stream, "412 Precondition Failed", "", b""),
        _ => answer(stream, "200 OK", &format!("{META}\r\netag: \"v2\""), &[2; 2000]),
    });
    assert!(get(&fetcher(&server.url("")), "s3://keys/x").unwrap() == vec![2; 2000]);
    assert_eq!(server.seen().len(), 3);
    // A store that ignores ranges.
    let server = Server::start(|request, stream| match request.number {
        0 => send(stream, &format!("200 OK\r\n{META}\r\netag: \"v1\"\r\ncontent-length: 3000"), &[1; 1000]),
        _ => answer(stream, "200 OK", &format!("{META}\r\netag: \"v1\""), &[1; 3000]),
    });
    assert!(get(&fetcher(&server.url("")), "s3://keys/x").unwrap() == vec![1; 3000]);
}

#[test]
fn errors_of_stores_say_what_to_do_and_no_secrets() {
    let denied: &[u8] = b"<Error><Code>SignatureDoesNotMatch</Code><Message>It does not match</Message><StringToSign>verysecret</StringToSign></Error>";
    for (status, class, word) in [
        ("403 Forbidden", ErrorClass::Unavailable, "AWS_SECRET_ACCESS_KEY"),
        ("401 Unauthorized", ErrorClass::Unavailable, "AWS_SECRET_ACCESS_KEY"),
        ("400 Bad Request", ErrorClass::Machine, "AWS_REGION"),
        ("301 Moved", ErrorClass::Unavailable, "region"),
        ("500 Oops", ErrorClass::Unavailable, "tried 4 times"),
    ] {
        let server = Server::start(move |_, stream| answer(stream, status, META, denied));
        let error = get(&fetcher(&server.url("")), "s3://keys/x").expect_err(status);
        let text = error.to_string();
        assert!(text.contains(word) && !text.contains("verysecret") && text.len() < 900, "{status}: {text}");
        assert_eq!(error.class(), class, "{status}: {text}");
    }
    // No credentials anywhere: the cloud's own credential service is asked, briefly.
    let mut options = options("http://127.0.0.1:1");
    options.0.retain(|(name, _)| !name.contains("KEY"));
    options.0.push(("aws_metadata_endpoint".to_owned(), "http://127.0.0.1:1".to_owned()));
    let network = impatient();
    let network = Network { retries: Retries { count: 1, ..network.retries.clone() }, ..network };
    let fetcher = Fetcher::new(Policy { object_options: options, network, ..Policy::run("/") }).unwrap();
    let error = get(&fetcher, "s3://keys/x").unwrap_err();
    assert!(matches!(error, FetchError::Unavailable { .. }), "{error:?}");
    let error = get(&fetcher, "az://keys/x").unwrap_err();
    assert!(error.to_string().contains("AZURE_STORAGE_ACCOUNT_NAME"), "{error}");
}

#[test]
fn stalls_and_cancels() {
    let server = Server::start(|_, stream| {
        send(stream, &format!("200 OK\r\n{META}\r\netag: \"v1\"\r\ncontent-length: 3000"), &[1; 1000]);
        std::thread::sleep(Duration::from_secs(4));
    });
    let error = get(&fetcher(&server.url("")), "s3://keys/x").unwrap_err();
    assert!(error.to_string().contains("no more bytes"), "{error}");
    let silent = Server::start(|_, _| std::thread::sleep(Duration::from_secs(4)));
    let patient = |server: &Server| {
        Fetcher::new(Policy { object_options: options(&server.url("")), ..Policy::run("/") }).unwrap()
    };
    for (name, server) in [("body", &server), ("head", &silent)] {
        let fetcher = patient(server);
        cancelled(name, |flag| fetcher.fetch_bytes("s3://keys/x", None, 1 << 20, flag, &|_, _| {}).err());
    }
}

#[test]
fn google_and_azure_stores_answer_too() {
    let body = content(3000);
    let served = body.clone();
    let server = Server::start(move |request, stream| match request.number {
        0 => send(
            stream,
            &format!("200 OK\r\n{META}\r\netag: \"v1\"\r\nx-ms-blob-type: BlockBlob\r\ncontent-length: 3000"),
            &served[..1000],
        ),
        _ => answer(
            stream,
            "206 P",
            &format!("{META}\r\netag: \"v1\"\r\nx-ms-blob-type: BlockBlob\r\ncontent-range: bytes 1000-2999/3000"),
            &served[1000..],
        ),
    });
    let account = format!(
        r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
        server.url("")
    );
    let endpoint = server.url("");
    for (url, target, pairs) in [
        ("gs://keys/a/b", "/keys/a%2Fb", vec![("GOOGLE_SERVICE_ACCOUNT_KEY", account.as_str())]),
        (
            "az://keys/a/b",
            "/keys/a/b",
            vec![
                ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
                ("AZURE_ALLOW_HTTP", "true"),
                ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
                ("azure_skip_signature", "true"),
            ],
        ),
    ] {
        server.forget();
        let object_options =
            ObjectOptions(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        let fetcher = Fetcher::new(Policy { object_options, network: impatient(), ..Policy::run("/") }).unwrap();
        assert!(get(&fetcher, url).unwrap() == body, "{url}");
        let seen = server.seen();
        assert_eq!(seen.len(), 2, "{url}");
        assert!(seen[0].target.starts_with(target), "{url}: {}", seen[0].target);
        assert_eq!(seen[1].header("range"), Some("bytes=1000-"), "{url}");
    }
}

#[test]
fn settings_that_send_credentials_in_the_clear_are_refused_at_start() {
    let mut object_options = options("http://minio:9000");
    object_options.0.retain(|(name, _)| name != "AWS_ALLOW_HTTP");
    let error = Fetcher::new(Policy { object_options, ..Policy::run("/") }).unwrap_err().to_string();
    assert!(error.contains("AWS_ALLOW_HTTP=true") && !error.contains("verysecret"), "{error}");
}
