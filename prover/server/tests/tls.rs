//! Mutual TLS: who gets in, who does not, and certificates that change while the engine runs.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Fake, Running, config};
use proofmill_server::client::{Address, Client, ClientConfig, ClientError, ClientTls};
use proofmill_server::config::{OPERATOR_NAME, TlsFiles};
use proofmill_server::{Listen, ServeConfig, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

const ENGINE_NAME: &str = "default.proofs.prover.proofmill.dev";

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn write(&self, path: &Path) -> PathBuf {
        std::fs::write(path, self.0.pem()).unwrap();
        path.to_owned()
    }

    /// Writes NAME.crt and NAME.key.
    fn issue(&self, dir: &Path, file: &str, name: &str, usage: ExtendedKeyUsagePurpose) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let paths = (dir.join(format!("{file}.crt")), dir.join(format!("{file}.key")));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}

fn client(server: &Running, (certificate, key): &(PathBuf, PathBuf), ca: &Path, name: &str) -> Client {
    let Listen::Tcp(address) = &server.grpc else { panic!() };
    let tls = ClientTls {
        certificate: certificate.clone(),
        key: key.clone(),
        ca: ca.into(),
        server_name: Some(name.to_owned()),
    };
    let config = ClientConfig { tls: Some(tls), ..ClientConfig::new(Address::Tls(address.to_string())) };
    Client::new(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operator_gets_in_and_only_to_the_right_engine() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let ca = ours.write(&dir.path().join("ca.crt"));
    let other_ca = theirs.write(&dir.path().join("other.crt"));
    let (client_use, server_use) = (ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth);
    let engine = ours.issue(dir.path(), "engine", ENGINE_NAME, server_use.clone());
    let operator = ours.issue(dir.path(), "operator", OPERATOR_NAME, client_use.clone());
    let tls = TlsFiles { certificate: engine.0.clone(), key: engine.1.clone(), client_ca: ca.clone() };
    let server = Running::start(ServeConfig { tls: Some(tls), ..config() }, Fake::new("b")).await;

    assert_eq!(client(&server, &operator, &ca, ENGINE_NAME).status(true).await.unwrap().boot_id, "b");

    let refused = async |what: &str, client: Client| match client.status(true).await {
        Err(ClientError::Unreachable { message, .. }) => message,
        other => panic!("{what}: {other:?}"),
    };
    let stranger = ours.issue(dir.path(), "stranger", "grafana.proofmill.dev", client_use.clone());
    refused("another name", client(&server, &stranger, &ca, ENGINE_NAME)).await;
    let engine_as_client = ours.issue(dir.path(), "wrong-use", OPERATOR_NAME, server_use);
    refused("a server's certificate", client(&server, &engine_as_client, &ca, ENGINE_NAME)).await;
    let forged = theirs.issue(dir.path(), "forged", OPERATOR_NAME, client_use);
    refused("another authority", client(&server, &forged, &ca, ENGINE_NAME)).await;
    let message = refused("another engine", client(&server, &operator, &ca, "other.proofs.prover.proofmill.dev")).await;
    assert!(message.contains("not valid for name"), "{message}");
    refused("an engine of another authority", client(&server, &operator, &other_ca, ENGINE_NAME)).await;
    let Listen::Tcp(address) = &server.grpc else { panic!() };
    let plain = Client::new(ClientConfig::new(Address::Tcp(address.to_string()))).unwrap();
    refused("plaintext", plain).await;
    assert_eq!(client(&server, &operator, &ca, ENGINE_NAME).status(true).await.unwrap().boot_id, "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_again_and_bad_ones_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let ca = old.write(&dir.path().join("ca.crt"));
    let new_ca = new.write(&dir.path().join("new-ca.crt"));
    let (client_use, server_use) = (ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth);
    let engine = old.issue(dir.path(), "engine", ENGINE_NAME, server_use.clone());
    let old_operator = old.issue(dir.path(), "old-operator", OPERATOR_NAME, client_use.clone());
    let new_operator = new.issue(dir.path(), "new-operator", OPERATOR_NAME, client_use);
    let tls = TlsFiles { certificate: engine.0.clone(), key: engine.1.clone(), client_ca: ca.clone() };
    let server = Running::start(ServeConfig { tls: Some(tls), ..config() }, Fake::new("b")).await;
    let old_client = || client(&server, &old_operator, &ca, ENGINE_NAME);
    old_client().status(true).await.unwrap();

    std::fs::write(&engine.0, "-----BEGIN CERTIFICATE-----\nhalf written").unwrap();
    tokio::time::sleep(Duration::from_millis(5500)).await;
    let half_written = client(&server, &old_operator, &dir.path().join("ca.crt"), ENGINE_NAME);
    half_written.status(true).await.unwrap();

    new.issue(dir.path(), "engine", ENGINE_NAME, server_use);
    let both = [old.0.pem(), new.0.pem()].concat();
    std::fs::write(&ca, both).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let served = client(&server, &new_operator, &new_ca, ENGINE_NAME).status(true).await;
        if served.is_ok() {
            break;
        }
        assert!(Instant::now() < end, "{}", served.unwrap_err());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Old and new operators overlap.
    old_client().status(true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unfit_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let ca = authority.write(&dir.path().join("ca.crt"));
    let usage = ExtendedKeyUsagePurpose::ServerAuth;
    let engine = authority.issue(dir.path(), "engine", ENGINE_NAME, usage.clone());
    let other = authority.issue(dir.path(), "other", ENGINE_NAME, usage);
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let absent = dir.path().join("absent.pem");
    let good = TlsFiles { certificate: engine.0.clone(), key: engine.1.clone(), client_ca: ca };
    let cases = [
        (TlsFiles { certificate: empty.clone(), ..good.clone() }, "empty.pem"),
        (TlsFiles { key: empty.clone(), ..good.clone() }, "empty.pem"),
        (TlsFiles { client_ca: empty, ..good.clone() }, "empty.pem"),
        (TlsFiles { certificate: absent, ..good.clone() }, "absent.pem"),
        (TlsFiles { key: engine.0.clone(), ..good.clone() }, "private key"),
        (TlsFiles { key: other.1, ..good.clone() }, "other.key"),
    ];
    for (tls, word) in cases {
        let error = Server::bind(ServeConfig { tls: Some(tls), ..config() }).await.err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    }
    let unix = ServeConfig { tls: Some(good), grpc: Listen::Unix(dir.path().join("s")), ..config() };
    let error = Server::bind(unix).await.err().unwrap().to_string();
    assert!(error.contains("--tls"), "{error}");
}
