//! The same manifests through our validation and through the server.

use proofmill_crds::documents::parse;

use crate::cases::manifests::{accepted, refused};
use crate::server::{Answer, Server, YAML};

/// Sends a manifest as it stands, not to be stored.
fn dry_run(server: &Server, manifest: &str) -> Answer {
    let line = |start: &str| manifest.lines().find_map(|line| line.strip_prefix(start));
    let kind = line("kind: ").filter(|kind| ["Circuit", "ProofJob", "ProverPool"].contains(kind));
    let namespace =
        line("metadata: ").and_then(|metadata| metadata.split("namespace: ").nth(1)?.split([',', '}']).next());
    let path = server.path_in(namespace.unwrap_or(&server.namespace), kind.unwrap_or("ProofJob"), "");
    server.send("POST", &format!("{path}?fieldValidation=Strict&dryRun=All"), YAML, manifest)
}

/// Where the server has no field to name, since it does not come to look at the object.
const ENVELOPE: [&str; 4] = ["", "apiVersion", "kind", "metadata.namespace"];

fn is_about_the_envelope(answer: &Answer) -> bool {
    answer.code == 404
        || answer.message().starts_with("the API version in the data")
        || answer.message().starts_with("the object provided is unrecognized")
}

/// Whether the server names this field, or of a value that has the wrong type, a field within it.
fn names(answer: &Answer, path: &str) -> bool {
    let within = |field: &String| field.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
    answer.fields().iter().any(|field| field == path || (!path.is_empty() && within(field)))
}

#[test]
fn the_server_refuses_what_we_refuse_and_names_the_same_field() {
    let Some(server) = Server::connect("the_server_refuses_what_we_refuse_and_names_the_same_field") else { return };
    let (mut same, mut differences) = (0, Vec::new());
    for (manifest, path, _) in refused() {
        let answer = dry_run(&server, &manifest);
        // Names are generated for `kubectl create`; only files of manifests need one.
        if manifest.contains("generateName") {
            assert!(answer.is_success(), "{}", answer.message());
        } else if answer.is_success() {
            differences.push(format!("accepted: {path}\n{manifest}"));
        } else if names(&answer, path) || (ENVELOPE.contains(&path) && is_about_the_envelope(&answer)) {
            same += 1;
        } else {
            differences.push(format!("{path}: {:?} {} {}", answer.fields(), answer.code, answer.message()));
        }
    }
    assert!(differences.is_empty(), "{same} are the same, but\n{}", differences.join("\n"));
}

#[test]
fn the_server_accepts_what_we_accept() {
    let Some(server) = Server::connect("the_server_accepts_what_we_accept") else { return };
    server.ensure_namespace("team-1");
    for manifest in accepted() {
        parse(&manifest, "job.yaml").unwrap_or_else(|error| panic!("{error}"));
        let answer = dry_run(&server, &manifest);
        assert_eq!(
            (answer.code, answer.warnings.len()),
            (201, 0),
            "{manifest}\n{} {:?}",
            answer.message(),
            answer.warnings
        );
    }
}
