//! Manifests: files of YAML or JSON with several documents of several kinds, each validated as a cluster would do it.
//! Errors name file, line, object and field.
//!
//! YAML is read as kubectl reads it (YAML 1.1's `yes` and `on` are booleans, `010` is 8, keys are strings, `<<` merges),
//! but a duplicate key is an error. Size, depth, number of documents and what aliases expand to are bounded.

mod scalar;
mod tree;

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    Circuit, Object, ProofJob, Violation,
    validate::{did_you_mean, quoted, shown, validate},
};
use tree::{Mark, Node};

/// Largest manifest in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// Most objects in a manifest.
pub const MAX_DOCUMENTS: usize = 10_000;

/// Most problems that one error lists.
const MAX_PROBLEMS: usize = 50;

/// A validated object and where it stands.
#[derive(Clone, Debug)]
pub struct Document {
    /// The object, defaults applied.
    pub object: Object,
    /// The file's name as given to [`parse`].
    pub file: String,
    /// The document's number within the file, from 1.
    pub number: usize,
    /// The line where it starts, from 1.
    pub line: usize,
    tree: Node,
}

/// A proof job with its circuit.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Where the job stands.
    pub document: &'a Document,
    /// The job.
    pub job: &'a ProofJob,
    /// Where its circuit stands.
    pub circuit_document: &'a Document,
    /// Its circuit.
    pub circuit: &'a Circuit,
}

/// Why a manifest was refused: one problem a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(&self.problems))]
pub struct ManifestError {
    /// At least one, in the order of the file.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name as given to [`parse`].
    pub file: String,
    /// The document's number within the file, from 1; 0 when the file as a whole is meant.
    pub document: usize,
    /// Line, from 1, where known.
    pub line: Option<usize>,
    /// Column, from 1, where known.
    pub column: Option<usize>,
    /// `Kind/name` of the object, where known.
    pub object: Option<String>,
    /// The field, such as `spec.input.url`; empty for the object itself.
    pub path: String,
    /// What is wrong and what to do. Holds no value of an input.
    pub message: String,
}

/// Parses and validates the documents of a manifest. A `status` is dropped, as `kubectl apply` does; the items of a
/// `List` count as documents.
///
/// # Errors
/// All that is wrong with any of the documents, as far as the YAML could be read.
pub fn parse(text: &str, file: &str) -> Result<Vec<Document>, ManifestError> {
    if text.len() > MAX_BYTES {
        let message = format!("has {} bytes, more than the {MAX_BYTES} that a manifest may have: split it", text.len());
        return Err(Problem::of_file(file, message).into());
    }
    let (trees, broken) = tree::read(text);
    let mut documents = Vec::new();
    let mut problems = Vec::new();
    for (index, tree) in trees.into_iter().enumerate() {
        for item in tree.into_items() {
            if documents.len() == MAX_DOCUMENTS {
                let message = format!("has more than {MAX_DOCUMENTS} objects: split it");
                return Err(Problem::of_file(file, message).into());
            }
            match document(item, file, index + 1) {
                Ok(document) => documents.push(document),
                Err(mut found) => problems.append(&mut found),
            }
        }
    }
    problems.extend(broken.map(|error| Problem {
        document: error.document,
        line: Some(error.mark.line),
        column: Some(error.mark.column),
        ..Problem::of_file(file, error.message)
    }));
    if documents.is_empty() && problems.is_empty() {
        problems.push(Problem::of_file(file, "has no documents: a Circuit and a ProofJob are needed for a proof"));
    }
    problems.extend(duplicates(&documents));
    if problems.is_empty() { Ok(documents) } else { Err(problems.into()) }
}

/// As [`parse`], for bytes that may not be text.
///
/// # Errors
/// As [`parse`], and bytes that are not UTF-8.
pub fn parse_bytes(bytes: &[u8], file: &str) -> Result<Vec<Document>, ManifestError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, file),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|c| **c == b'\n').count() + 1;
            let message = match bytes {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "is UTF-16: save it as UTF-8",
                _ => "is not UTF-8 text: a manifest is YAML or JSON",
            };
            Err(Problem { line: Some(line), ..Problem::of_file(file, message) }.into())
        }
    }
}

/// Refuses two objects of the same kind, namespace and name, also when they come from different files.
///
/// # Errors
/// One problem per object that repeats an earlier one.
pub fn check_duplicates(documents: &[Document]) -> Result<(), ManifestError> {
    let problems = duplicates(documents);
    if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
}

/// The proof jobs with their circuits, in order: what `prover run` proves.
///
/// # Errors
/// Jobs whose circuit is not among the documents, and documents without any job.
pub fn jobs(documents: &[Document]) -> Result<Vec<Job<'_>>, ManifestError> {
    let circuits = |namespace: &str| {
        let namespace = namespace.to_owned();
        documents.iter().filter(move |d| d.object.kind() == "Circuit" && d.object.namespace() == namespace)
    };
    let mut problems = Vec::new();
    let mut jobs = Vec::new();
    for document in documents {
        let Object::ProofJob(job) = &document.object else { continue };
        let wanted = job.spec.circuit_ref.name.as_str();
        let found = circuits(document.object.namespace()).find_map(|candidate| match &candidate.object {
            Object::Circuit(circuit) if candidate.object.name() == wanted => Some((candidate, circuit)),
            _ => None,
        });
        match found {
            Some((circuit_document, circuit)) => jobs.push(Job { document, job, circuit_document, circuit }),
            None => {
                let close = did_you_mean(wanted, circuits(document.object.namespace()).map(|d| d.object.name()));
                let message = format!(
                    "no Circuit {} in namespace {} is among the given documents{close}",
                    quoted(wanted),
                    document.object.namespace()
                );
                problems.push(document.problem("spec.circuitRef.name", message));
            }
        }
    }
    if jobs.is_empty() && problems.is_empty() {
        let file = documents.first().map_or("manifest", |d| d.file.as_str());
        problems.push(Problem::of_file(file, "has no ProofJob: nothing to prove"));
    }
    if problems.is_empty() { Ok(jobs) } else { Err(problems.into()) }
}

fn document(tree: Node, file: &str, number: usize) -> Result<Document, Vec<Problem>> {
    let value = tree.to_value();
    let label = label(&value);
    let problem = |violation: Violation| problem_at(&tree, file, number, label.clone(), violation);
    let mut violations = match validate(&value) {
        Ok(object) if !object.name().is_empty() => {
            return Ok(Document { object, file: file.to_owned(), number, line: tree.mark.line, tree });
        }
        Ok(_) => vec![Violation {
            path: "metadata.name".to_owned(),
            message: "is required: generateName serves only kubectl create".to_owned(),
        }],
        Err(violations) => violations,
    };
    violations.truncate(MAX_PROBLEMS);
    let mut problems: Vec<Problem> = violations.into_iter().map(problem).collect();
    problems.sort_by_key(|p| (p.line, p.column));
    Err(problems)
}

fn problem_at(tree: &Node, file: &str, document: usize, object: Option<String>, violation: Violation) -> Problem {
    let Mark { line, column } = tree.locate(&violation.path);
    Problem {
        file: file.to_owned(),
        document,
        line: Some(line),
        column: Some(column),
        object,
        path: violation.path,
        message: violation.message,
    }
}

/// `Kind/name` of what may become an object.
fn label(value: &Value) -> Option<String> {
    let name = value["metadata"]["name"].as_str().filter(|name| !name.is_empty())?;
    Some(format!("{}/{}", shown(value["kind"].as_str()?), shown(name)))
}

fn duplicates(documents: &[Document]) -> Vec<Problem> {
    let mut seen: HashMap<(&str, &str, &str), &Document> = HashMap::new();
    let mut problems = Vec::new();
    for document in documents {
        let object = &document.object;
        let identity = (object.kind(), object.namespace(), object.name());
        if let Some(first) = seen.get(&identity) {
            let message = format!("the same {} stands at {}:{} already", object.kind(), first.file, first.line);
            problems.push(document.problem("metadata.name", message));
        } else {
            seen.insert(identity, document);
        }
    }
    problems
}

fn lines(problems: &[Problem]) -> String {
    let mut lines: Vec<String> = problems.iter().take(MAX_PROBLEMS).map(Problem::to_string).collect();
    if problems.len() > MAX_PROBLEMS {
        lines.push(format!("and {} more problems", problems.len() - MAX_PROBLEMS));
    }
    lines.join("\n")
}

impl Document {
    /// A problem with the field at `path`, with its line: for checks beyond the API's, such as a file that is not there.
    pub fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        let object = format!("{}/{}", self.object.kind(), self.object.name());
        let violation = Violation { path: path.to_owned(), message: message.into() };
        problem_at(&self.tree, &self.file, self.number, Some(object), violation)
    }
}

impl Problem {
    fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            document: 0,
            line: None,
            column: None,
            object: None,
            path: String::new(),
            message: message.into(),
        }
    }
}

/// `job.yaml:14: ProofJob/first: spec.priority: "urgent" is not one of Low, Normal, High, Critical`
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        match (&self.object, self.document) {
            (Some(object), _) => write!(f, " {object}:")?,
            (None, 0) => {}
            (None, document) => write!(f, " document {document}:")?,
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.message)
    }
}

impl From<Problem> for ManifestError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl From<Vec<Problem>> for ManifestError {
    fn from(problems: Vec<Problem>) -> Self {
        Self { problems }
    }
}
