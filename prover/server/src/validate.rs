//! From messages to the engine's types. Every field is looked at once, here; what comes out is trusted.

use std::sync::Arc;
use std::time::Duration;

use proofmill_engine::job::{Circuit, CircuitKind, Input, PartitionId, Priority, Source, Submission};
use proofmill_groth16::device::simulated::SimulatedCircuit;
use proofmill_proto::{limits, v1};

/// A field that cannot be accepted. Never holds the field's value: it may be private.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub(crate) struct FieldError {
    /// Such as `circuit.groth16.zkey.url`.
    pub path: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

type Checked<T> = Result<T, FieldError>;

/// A whole submission.
pub(crate) fn submission(request: v1::SubmitRequest) -> Checked<Submission> {
    Ok(Submission {
        id: partition_id(request.id, "id")?,
        epoch: request.epoch,
        digest: required_digest(&request.digest, "digest")?,
        priority: priority(request.priority, "priority")?,
        sequence: request.sequence,
        deadline: deadline(request.deadline_ms)?,
        circuit: circuit(request.circuit, "circuit")?,
        input: input(request.input, "input")?,
    })
}

/// A required identity of a partition.
pub(crate) fn partition_id(id: Option<v1::PartitionId>, path: &str) -> Checked<PartitionId> {
    let id = id.ok_or_else(|| missing(path))?;
    job(&id.job, &format!("{path}.job"))?;
    if id.partition >= limits::PARTITIONS {
        return Err(field(&format!("{path}.partition"), format!("must be below {}", limits::PARTITIONS)));
    }
    Ok(PartitionId { job: id.job, partition: id.partition, attempt: id.attempt })
}

/// A job's identity.
pub(crate) fn job(job: &str, path: &str) -> Checked<()> {
    let fine = job.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b));
    if job.is_empty() || job.len() > limits::JOB || !fine {
        return Err(field(path, format!("must be 1 to {} characters of [A-Za-z0-9._:-], such as a UID", limits::JOB)));
    }
    Ok(())
}

/// A priority; none means Normal.
pub(crate) fn priority(value: i32, path: &str) -> Checked<Priority> {
    match v1::Priority::try_from(value) {
        Ok(v1::Priority::Low) => Ok(Priority::Low),
        Ok(v1::Priority::Unspecified | v1::Priority::Normal) => Ok(Priority::Normal),
        Ok(v1::Priority::High) => Ok(Priority::High),
        Ok(v1::Priority::Critical) => Ok(Priority::Critical),
        Err(_) => Err(field(path, format!("{value} is no priority; it is LOW 1, NORMAL 2, HIGH 3 or CRITICAL 4"))),
    }
}

/// A required circuit.
pub(crate) fn circuit(circuit: Option<v1::Circuit>, path: &str) -> Checked<Circuit> {
    let circuit = circuit.ok_or_else(|| missing(path))?;
    circuit_name(&circuit.name, &format!("{path}.name"))?;
    let kind = match circuit.kind {
        Some(v1::circuit::Kind::Groth16(parts)) => groth16(parts, &format!("{path}.groth16"))?,
        Some(v1::circuit::Kind::Simulated(script)) => simulated(&script, &format!("{path}.simulated"))?,
        None => return Err(field(path, "has no kind that this engine knows; set `groth16` or `simulated`".to_owned())),
    };
    Ok(Circuit { name: circuit.name, kind })
}

/// A circuit's name: that of a Kubernetes object.
pub(crate) fn circuit_name(name: &str, path: &str) -> Checked<()> {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| match label.as_bytes() {
        [] => false,
        bytes @ [first, .., last] => {
            alphanumeric(*first) && alphanumeric(*last) && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
        }
        [only] => alphanumeric(*only),
    };
    if name.len() > limits::CIRCUIT_NAME || !name.split('.').all(label) {
        let most = limits::CIRCUIT_NAME;
        return Err(field(
            path,
            format!("must be a name of at most {most} characters of [a-z0-9.-], such as semaphore-20"),
        ));
    }
    Ok(())
}

/// A required digest.
pub(crate) fn required_digest(bytes: &[u8], path: &str) -> Checked<[u8; 32]> {
    bytes.try_into().map_err(|_| field(path, format!("must be a SHA-256 of 32 bytes, has {}", bytes.len())))
}

/// A drain's grace period.
pub(crate) fn grace(ms: Option<u64>, path: &str) -> Checked<Option<Duration>> {
    match ms {
        Some(ms) if ms > limits::GRACE_MS => Err(field(path, format!("must be at most {} (a day)", limits::GRACE_MS))),
        ms => Ok(ms.map(Duration::from_millis)),
    }
}

/// The time between two reports.
pub(crate) fn interval(ms: u64, path: &str) -> Checked<Duration> {
    match ms {
        0 => Ok(Duration::from_secs(1)),
        ms if limits::STATUS_INTERVAL_MS.contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => {
            let (least, most) = (limits::STATUS_INTERVAL_MS.start(), limits::STATUS_INTERVAL_MS.end());
            Err(field(path, format!("must be {least} to {most}, or 0 for a second")))
        }
    }
}

fn deadline(ms: Option<u64>) -> Checked<Option<Duration>> {
    match ms {
        None => Ok(None),
        Some(0) => Err(field("deadline_ms", "is 0: the deadline has passed; leave it out for none".to_owned())),
        Some(ms) if ms > limits::DEADLINE_MS => Err(field(
            "deadline_ms",
            format!("must be at most {} (a year); leave it out for none", limits::DEADLINE_MS),
        )),
        Some(ms) => Ok(Some(Duration::from_millis(ms))),
    }
}

fn groth16(parts: v1::Groth16Circuit, path: &str) -> Checked<CircuitKind> {
    let optional =
        |part: Option<v1::Source>, name: &str| part.map(|part| source(part, &format!("{path}.{name}"))).transpose();
    Ok(CircuitKind::Groth16 {
        zkey: optional(parts.zkey, "zkey")?.ok_or_else(|| missing(&format!("{path}.zkey")))?,
        witness_generator: optional(parts.witness_generator, "witness_generator")?,
        r1cs: optional(parts.r1cs, "r1cs")?,
        symbols: optional(parts.symbols, "symbols")?,
        verifying_key: optional(parts.verifying_key, "verifying_key")?,
    })
}

fn simulated(script: &v1::SimulatedCircuit, path: &str) -> Checked<CircuitKind> {
    if script.partitions == 0 || script.partitions > limits::SIMULATED_PARTITIONS {
        return Err(field(&format!("{path}.partitions"), format!("must be 1 to {}", limits::SIMULATED_PARTITIONS)));
    }
    let time = |us: u64, name: &str| {
        if us > limits::SIMULATED_US {
            return Err(field(
                &format!("{path}.{name}"),
                format!("must be at most {} (an hour)", limits::SIMULATED_US),
            ));
        }
        Ok(Duration::from_micros(us))
    };
    Ok(CircuitKind::Simulated(SimulatedCircuit {
        partitions: script.partitions,
        key_bytes: script.key_bytes,
        working_set: script.working_set,
        key_load: time(script.key_load_us, "key_load_us")?,
        synthesis: time(script.synthesis_us, "synthesis_us")?,
        ntt: time(script.ntt_us, "ntt_us")?,
        msm_g1: time(script.msm_g1_us, "msm_g1_us")?,
        msm_g2: time(script.msm_g2_us, "msm_g2_us")?,
        transfer: time(script.transfer_us, "transfer_us")?,
        finish: time(script.finish_us, "finish_us")?,
    }))
}

fn input(input: Option<v1::Input>, path: &str) -> Checked<Input> {
    match input.and_then(|input| input.source) {
        None => Err(field(path, "is missing; set `inline` or `fetch`".to_owned())),
        Some(v1::input::Source::Inline(bytes)) => {
            if bytes.is_empty() || bytes.len() > limits::INLINE_INPUT {
                let problem = format!(
                    "has {} bytes, must have 1 to {}; give a bigger input by URL in `fetch`",
                    bytes.len(),
                    limits::INLINE_INPUT
                );
                return Err(field(&format!("{path}.inline"), problem));
            }
            Ok(Input::Inline(Arc::from(bytes)))
        }
        Some(v1::input::Source::Fetch(fetch)) => Ok(Input::Fetch(source(fetch, &format!("{path}.fetch"))?)),
    }
}

fn source(source: v1::Source, path: &str) -> Checked<Source> {
    let url = format!("{path}.url");
    if source.url.len() > limits::URL {
        return Err(field(&url, format!("has {} bytes, may have {}", source.url.len(), limits::URL)));
    }
    const SCHEMES: [&str; 6] = ["file", "http", "https", "s3", "gs", "az"];
    if !source.url.split_once(':').is_some_and(|(scheme, rest)| SCHEMES.contains(&scheme) && !rest.is_empty()) {
        return Err(field(&url, format!("must begin with one of {}:", SCHEMES.join(":, "))));
    }
    if source.url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(field(&url, "holds spaces or control characters; write them as %XX".to_owned()));
    }
    let sha256 = match source.sha256.as_slice() {
        [] => None,
        bytes => Some(required_digest(bytes, &format!("{path}.sha256"))?),
    };
    Ok(Source { url: source.url, sha256 })
}

fn missing(path: &str) -> FieldError {
    field(path, "is missing".to_owned())
}

fn field(path: &str, problem: String) -> FieldError {
    FieldError { path: path.to_owned(), problem }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
