//! S3 against moto, a real S3 server in Python. `tests/all` installs it and names it in `PROOFMILL_TEST_MOTO`.

#![cfg(feature = "object-store")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/fetching.rs"]
mod fetching;
mod moto;

use fetching::{content, get, impatient};
use moto::Moto;
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

#[test]
fn s3_against_moto() {
    let Some(moto) = Moto::start("s3_against_moto") else { return };
    let body = content(5 << 20);
    moto.put("/keys", b"");
    moto.put("/keys/folder/a%20key.zkey", &body);
    let fetcher = fetcher(&moto.url());
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
