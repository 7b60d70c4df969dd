//! From manifests to what the engine is asked: documents are read, validated as a cluster would, and turned into
//! submissions. Relative `file:` URLs become absolute here, since only here the manifest's folder is known.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proofmill_crds::documents::{self, Document, Job, ManifestError, Problem};
use proofmill_crds::source::{Input as InputSpec, Source as SourceSpec};
use proofmill_crds::{Object, circuit, proof_job};
use proofmill_engine::job::{Circuit, CircuitKind, Input, PartitionId, Priority, Source, Submission};
use proofmill_groth16::device::simulated::SimulatedCircuit;
use sha2::{Digest as _, Sha256};

use crate::error::CliError;

/// A job of a manifest, ready to be submitted.
pub struct PlannedJob {
    /// The name that users see: `name`, or `namespace/name` outside the namespace `default`.
    pub name: String,
    /// Its circuit's name.
    pub circuit: String,
    /// One per partition.
    pub submissions: Vec<Submission>,
    /// The folder that the job's relative `file:` URLs are relative to.
    pub folder: PathBuf,
}

/// What relative `file:` URLs mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUrls {
    /// Relative to the manifest's folder: this process opens them.
    Manifest,
    /// Left as they are: a daemon opens them beneath its own root.
    Daemon,
}

/// The jobs of these manifests in order, and remarks for the user (such as suspended jobs, which are left out).
pub fn plan(files: &[PathBuf], urls: FileUrls) -> Result<(Vec<PlannedJob>, Vec<String>), CliError> {
    let mut all: Vec<Document> = Vec::new();
    for file in files {
        let name = if file.as_os_str() == "-" { "stdin".into() } else { file.to_string_lossy() };
        all.extend(documents::parse_bytes(&read(file)?, &name).map_err(usage)?);
    }
    documents::check_duplicates(&all).map_err(usage)?;
    let mut planned = Vec::new();
    let mut remarks = pools(&all);
    for (sequence, job) in documents::jobs(&all).map_err(usage)?.iter().enumerate() {
        let name = shown_name(&job.document.object);
        if job.job.spec.suspend {
            remarks.push(format!("{name} is suspended (spec.suspend): left out"));
            continue;
        }
        planned.push(plan_job(job, name, sequence as u64, urls)?);
    }
    Ok((planned, remarks))
}

/// A remark for each pool: the same files serve a cluster, where pods are to be had.
fn pools(documents: &[Document]) -> Vec<String> {
    let pools = documents.iter().map(|document| &document.object).filter(|object| object.kind() == "ProverPool");
    pools.map(|pool| format!("{} is a ProverPool, which only a cluster has: left out", shown_name(pool))).collect()
}

fn plan_job(job: &Job<'_>, name: String, sequence: u64, urls: FileUrls) -> Result<PlannedJob, CliError> {
    let spec = &job.job.spec;
    let circuit = plan_circuit(job, urls)?;
    let input = plan_input(job, &spec.input, urls)?;
    let partitions = match &circuit.kind {
        CircuitKind::Simulated(simulated) => simulated.partitions,
        CircuitKind::Groth16 { .. } => 1,
    };
    let digest = request_digest(&circuit, &input);
    let submissions = (0..partitions)
        .map(|partition| Submission {
            id: PartitionId { job: name.clone(), partition, attempt: 0 },
            epoch: 0,
            digest,
            priority: match spec.priority {
                proof_job::Priority::Low => Priority::Low,
                proof_job::Priority::Normal => Priority::Normal,
                proof_job::Priority::High => Priority::High,
                proof_job::Priority::Critical => Priority::Critical,
            },
            sequence,
            deadline: spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
            circuit: circuit.clone(),
            input: input.clone(),
        })
        .collect();
    Ok(PlannedJob { name, circuit: circuit.name, submissions, folder: folder(job.document)? })
}

fn plan_circuit(job: &Job<'_>, urls: FileUrls) -> Result<Circuit, CliError> {
    let document = job.circuit_document;
    let spec = &job.circuit.spec;
    let source = |path: &str, source: &SourceSpec| {
        Ok::<_, CliError>(Source {
            url: resolve(document, &format!("spec.groth16.{path}.url"), &source.url, urls)?,
            sha256: source.sha256_bytes(),
        })
    };
    let optional = |path: &str, given: &Option<SourceSpec>| given.as_ref().map(|s| source(path, s)).transpose();
    let kind = match (&spec.groth16, &spec.simulated) {
        (Some(groth16), _) => CircuitKind::Groth16 {
            zkey: source("zkey", &groth16.zkey)?,
            witness_generator: optional("witnessGenerator", &groth16.witness_generator)?,
            r1cs: optional("r1cs", &groth16.r1cs)?,
            symbols: optional("symbols", &groth16.symbols)?,
            verifying_key: optional("verifyingKey", &groth16.verifying_key)?,
        },
        (None, Some(simulated)) => CircuitKind::Simulated(plan_simulated(simulated)),
        (None, None) => {
            let message = "this prover has no Filecoin circuits; use a circuit of the kind groth16";
            return Err(problem(document, "spec.filecoin", message));
        }
    };
    Ok(Circuit { name: document.object.name().to_owned(), kind })
}

/// Validated numbers are never negative.
fn plan_simulated(spec: &circuit::Simulated) -> SimulatedCircuit {
    let milliseconds = |value: i32| Duration::from_millis(value.unsigned_abs().into());
    let cost = &spec.milliseconds;
    SimulatedCircuit {
        partitions: spec.partitions.unsigned_abs(),
        key_bytes: spec.bytes.key.unsigned_abs(),
        working_set: spec.bytes.working_set.unsigned_abs(),
        key_load: milliseconds(cost.key_load),
        synthesis: milliseconds(cost.synthesis),
        ntt: milliseconds(cost.ntt),
        msm_g1: milliseconds(cost.msm_g1),
        msm_g2: milliseconds(cost.msm_g2),
        transfer: milliseconds(cost.transfer),
        finish: milliseconds(cost.finish),
    }
}

fn plan_input(job: &Job<'_>, input: &InputSpec, urls: FileUrls) -> Result<Input, CliError> {
    let sha256 = input.sha256_bytes();
    if let Some(url) = &input.url {
        let url = resolve(job.document, "spec.input.url", url, urls)?;
        return Ok(Input::Fetch(Source { url, sha256 }));
    }
    if let Some(bytes) = input.inline_bytes() {
        let actual: [u8; 32] = Sha256::digest(&bytes).into();
        if sha256.is_some_and(|expected| expected != actual) {
            let message =
                format!("the inline bytes have the SHA-256 {}, not this one", proofmill_crds::hex::encode(&actual));
            return Err(problem(job.document, "spec.input.sha256", message));
        }
        return Ok(Input::Inline(Arc::from(bytes)));
    }
    let path = if input.config_map_key_ref.is_some() { "configMapKeyRef" } else { "secretKeyRef" };
    let message = "only a cluster has ConfigMaps and Secrets; use url or inline on one machine";
    Err(problem(job.document, &format!("spec.input.{path}"), message))
}

fn resolve(document: &Document, path: &str, url: &str, urls: FileUrls) -> Result<String, CliError> {
    if urls == FileUrls::Daemon {
        return Ok(url.to_owned());
    }
    let folder = folder(document)?;
    proofmill_sources::resolve(url, &folder).map_err(|e| problem(document, path, e.to_string()))
}

/// The folder of a document's manifest, absolute.
fn folder(document: &Document) -> Result<PathBuf, CliError> {
    let folder = match document.file.as_str() {
        "stdin" => Path::new("."),
        file => Path::new(file).parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
    };
    std::path::absolute(folder).map_err(|e| CliError::Engine(format!("cannot tell the current folder: {e}")))
}

/// SHA-256 over what the request means, so that a changed request under an old name is noticed.
fn request_digest(circuit: &Circuit, input: &Input) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(circuit.name.as_bytes());
    match &circuit.kind {
        CircuitKind::Groth16 { zkey, witness_generator, r1cs, symbols, verifying_key } => {
            for part in
                [Some(zkey), witness_generator.as_ref(), r1cs.as_ref(), symbols.as_ref(), verifying_key.as_ref()]
            {
                field(part.map_or(&[][..], |source| source.url.as_bytes()));
                field(part.and_then(|source| source.sha256.as_ref()).map_or(&[][..], |digest| &digest[..]));
            }
        }
        // Plain numbers.
        CircuitKind::Simulated(simulated) => field(format!("{simulated:?}").as_bytes()),
    }
    match input {
        Input::Inline(bytes) => field(bytes),
        Input::Fetch(source) => {
            field(source.url.as_bytes());
            field(source.sha256.as_ref().map_or(&[][..], |digest| &digest[..]));
        }
    }
    hash.finalize().into()
}

fn shown_name(object: &Object) -> String {
    match object.namespace() {
        "default" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    let limit = documents::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(limit).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(e) => Err(CliError::Usage(format!("cannot read the manifest {}: {e}", file.display()))),
    }
}

fn problem(document: &Document, path: &str, message: impl Into<String>) -> CliError {
    let problem: Problem = document.problem(path, message);
    CliError::Usage(problem.to_string())
}

fn usage(error: ManifestError) -> CliError {
    CliError::Usage(error.to_string())
}
