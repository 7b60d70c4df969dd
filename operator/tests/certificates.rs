//! The certificates over a real socket, with the checks that engines make: a client certificate of the authority, with the
//! operator's name; and the one that the operator makes: a server certificate with the pool's name.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use proofmill_operator::certificates::{
    AUTHORITIES, Authority, CERTIFICATE, Identity, Lifetimes, OPERATOR_NAME, PRIVATE_KEY, SecretData, authority, leaf,
};
use proofmill_operator::index::Key;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

const DAY: i64 = 24 * 3600;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

fn engines(name: &str) -> Identity {
    Identity::Engines(Key { namespace: "proofs".to_owned(), name: name.to_owned() })
}

fn issue(identity: &Identity, authority: &Authority, now: i64) -> SecretData {
    leaf(identity, None, authority, now, &Lifetimes::default()).unwrap().data
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn chain(data: &SecretData) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificates = CertificateDer::pem_slice_iter(&data[CERTIFICATE]).collect::<Result<_, _>>().unwrap();
    (certificates, PrivateKeyDer::from_pem_slice(&data[PRIVATE_KEY]).unwrap())
}

fn roots(data: &SecretData) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&data[AUTHORITIES]) {
        roots.add(certificate.unwrap()).unwrap();
    }
    Arc::new(roots)
}

/// One connection of an operator to an engine of the pool `name`; whether both were content.
fn talk(engine: &SecretData, operator: &SecretData, name: &str) -> Result<(), String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(engine), provider()).build().unwrap();
    let (certificates, key) = chain(engine);
    let server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || -> Result<(), String> {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(server)).unwrap(), stream);
        let mut word = [0; 4];
        stream.read_exact(&mut word).map_err(|error| error.to_string())?;
        let certificates = stream.conn.peer_certificates().unwrap();
        let client = ParsedCertificate::try_from(&certificates[0]).unwrap();
        verify_server_name(&client, &ServerName::try_from(OPERATOR_NAME).unwrap()).map_err(|e| e.to_string())?;
        stream.write_all(&word).map_err(|error| error.to_string())
    });
    let (certificates, key) = chain(operator);
    let client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(operator))
        .with_client_auth_cert(certificates, key)
        .unwrap();
    let name = ServerName::try_from(format!("{name}.proofs.prover.proofmill.dev")).unwrap();
    let asked = ask(client, name, address);
    let served = serving.join().unwrap();
    asked.map_err(|error| error.to_string()).and(served)
}

fn ask(config: ClientConfig, name: ServerName<'static>, address: SocketAddr) -> std::io::Result<()> {
    let connection = ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
    stream.write_all(b"ping")?;
    stream.read_exact(&mut [0; 4])
}

#[test]
fn operator_and_engine_accept_each_other_and_nobody_else() {
    let lifetimes = Lifetimes::default();
    let (ours, _) = authority(None, now(), &lifetimes).unwrap();
    let (theirs, _) = authority(None, now(), &lifetimes).unwrap();
    let engine = issue(&engines("default"), &ours, now());
    let operator = issue(&Identity::Operator, &ours, now());
    talk(&engine, &operator, "default").unwrap();

    let refused = |what: &str, engine: &SecretData, operator: &SecretData, name: &str| {
        assert!(talk(engine, operator, name).is_err(), "{what}");
    };
    refused("another pool's engine", &engine, &operator, "other");
    refused("an engine as client", &engine, &issue(&engines("default"), &ours, now()), "default");
    refused("the operator's certificate as server", &operator, &operator, "default");
    refused("another authority's client", &engine, &issue(&Identity::Operator, &theirs, now()), "default");
    let expired = issue(&Identity::Operator, &ours, now() - 31 * DAY);
    refused("an expired client", &engine, &expired, "default");
    let expired = issue(&engines("default"), &ours, now() - 31 * DAY);
    refused("an expired engine", &expired, &operator, "default");
}

/// At every step of a rotation an operator and an engine that have seen it talk, and so do those of which one is a step
/// behind: the kubelet takes minutes to bring a Secret to a pod.
#[test]
fn a_rotation_interrupts_nothing() {
    let lifetimes = Lifetimes { authority: 30 * DAY, leaf: 10 * DAY, spread: DAY };
    // The authority is due now; the steps that follow are planned for later but used now.
    let begin = now() - 20 * DAY;
    let (_, mut planned) = authority(None, begin, &lifetimes).unwrap();
    let mut steps = Vec::new();
    for time in [begin + 20 * DAY - 1, begin + 20 * DAY, begin + 21 * DAY] {
        let (signer, next) = authority(Some(&planned.data), time, &lifetimes).unwrap();
        let make = |identity: &Identity| leaf(identity, None, &signer, now(), &lifetimes).unwrap().data;
        steps.push((make(&engines("default")), make(&Identity::Operator)));
        planned = next;
    }
    for (engine, operator) in &steps {
        talk(engine, operator, "default").unwrap();
    }
    for pair in steps.windows(2) {
        talk(&pair[0].0, &pair[1].1, "default").unwrap();
        talk(&pair[1].0, &pair[0].1, "default").unwrap();
    }
    // The overlap is what does it: without the step in between the new operator is a stranger.
    assert!(talk(&steps[0].0, &steps[2].1, "default").is_err());
}
