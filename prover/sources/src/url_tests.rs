use super::*;

fn path(url: &str) -> Result<String, String> {
    SourceUrl::parse(url)
        .and_then(|url| url.file_path())
        .map(|path| path.to_string_lossy().into_owned())
        .map_err(|error| error.to_string())
}

#[test]
fn file_urls_and_their_paths() {
    for (url, expected) in [
        ("file:x.zkey", "x.zkey"),
        ("FILE:x.zkey", "x.zkey"),
        ("file:../x", "../x"),
        ("file:./a/../b", "./a/../b"),
        ("file:/abs", "/abs"),
        ("file:///abs/y", "/abs/y"),
        ("file://localhost/abs", "/abs"),
        ("file:a%20b%25.json", "a b%.json"),
        ("file:a b.json", "a b.json"),
        ("file:%C3%A9.json", "é.json"),
        ("file:é.json", "é.json"),
    ] {
        assert_eq!(path(url).as_deref(), Ok(expected), "{url}");
    }
}

#[test]
fn wrong_urls_say_what_is_wrong() {
    for (url, word) in [
        ("", "empty"),
        ("x.zkey", "file:NAME"),
        ("ftp://x/y", "unknown scheme"),
        ("file:", "no path"),
        ("file://", "no path"),
        ("file://host/x", "names a host"),
        ("file://x.zkey", "names a host"),
        ("file:a%2", "%"),
        ("file:a%zz", "%"),
        ("file:a%+1", "%"),
        ("file:a%00b", "zero byte"),
        ("file:a?b", "%3F"),
        ("file:a#b", "%3F"),
        ("file:a\nb", "control character"),
        ("https:x", "slashes"),
        ("http://a b/", "space"),
    ] {
        let message = path(url).expect_err(url);
        assert!(message.contains(word), "{url}: {message}");
    }
    let long = format!("file:{}", "a".repeat(MAX_URL));
    assert!(path(&long).expect_err("long").len() < 500);
}

#[test]
fn resolution_is_relative_to_the_manifest() {
    let at = |url: &str| resolve(url, Path::new("/jobs/a b")).unwrap();
    assert_eq!(at("file:x.zkey"), "file:///jobs/a%20b/x.zkey");
    assert_eq!(at("file:../x"), "file:///jobs/a%20b/../x");
    assert_eq!(at("file:///k/x"), "file:///k/x");
    assert_eq!(at("https://h/x?sig=1"), "https://h/x?sig=1");
    assert_eq!(path(&at("file:%FF%3F")).unwrap(), "/jobs/a b/\u{fffd}?");
    // Resolving twice changes nothing.
    assert_eq!(at(&at("file:x%25")), at("file:x%25"));
    assert!(resolve("file:x", Path::new(".")).unwrap().starts_with("file:///"));
}

#[test]
fn secrets_of_urls_are_not_shown() {
    for (url, expected) in [
        ("https://user:pw@host:1/p?sig=secret#f", "https://host:1/p?…"),
        ("https://user@x:pw@host/p", "https://host/p"),
        ("https://host/p@2?x", "https://host/p@2?…"),
        ("https://[::1]:80/p", "https://[::1]:80/p"),
        ("https://u:se/cret@host/p", "https://…"),
        ("https://u:se?cret@host/p", "https://…?…"),
        ("https://u:se\\cret@host/p", "https://…"),
        ("user:pw@host", "…"),
        ("file:a@b", "file:a@b"),
        ("s3://bucket/key", "s3://bucket/key"),
    ] {
        assert_eq!(redact(url), expected, "{url}");
    }
    assert!(redact(&format!("https://h/{}", "a".repeat(5000))).chars().count() < 300);
    let debug = format!("{:?}", SourceUrl::parse("https://u:pw@h/x?sig=secret").unwrap());
    assert_eq!(debug, "https://h/x?…");
}

#[cfg(feature = "http")]
#[test]
fn texts_of_libraries_are_scrubbed() {
    let text = "error for url (https://u:p@h/x?sig=secret): GET /x?sig=secret failed\r\n\x1b[31mred";
    let scrubbed = scrub(text);
    assert!(!scrubbed.contains("secret") && !scrubbed.contains("u:p") && !scrubbed.contains('\x1b'), "{scrubbed}");
}

#[cfg(feature = "http")]
#[test]
fn objects() {
    let parsed = |url: &str| {
        SourceUrl::parse(url)
            .and_then(|url| url.bucket_and_key().map(|(bucket, key)| format!("{bucket} {key}")))
            .map_err(|error| error.to_string())
    };
    assert_eq!(parsed("s3://my-bucket/a/b%20c").as_deref(), Ok("my-bucket a/b c"));
    for url in [
        "s3://",
        "s3:///k",
        "s3://b",
        "s3://b/",
        "s3://b/a/",
        "s3://b/../c",
        "s3://b/%2e%2e/c",
        "s3://b//c",
        "s3://B/c",
        "s3://user@b/c",
        "s3://b:80/c",
        "s3://b/c?versionId=1",
        "s3://b/%ff",
        "az://c@account/k",
        "s3://a..b/c",
    ] {
        parsed(url).expect_err(url);
    }
}
