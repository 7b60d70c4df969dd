//! The operator's own check of proofs, and the files that users get.
//!
//! It guards against faults and mixed-up keys, not against a malicious pod: the verifying key comes from the pods too.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use proofmill_groth16::curve::Curve;
use proofmill_groth16::format::public;
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verify::Verifier;
use proofmill_groth16::verifying_key::VerifyingKey;
use proofmill_proto::v1;
use sha2::{Digest as _, Sha256};

use crate::index::JobObject;
use crate::jobs::status::limbs;
use crate::link::{CALL, Links};
use crate::owner::{self, MANAGED_BY};
use crate::planner::{Verification, VerifyFault};

/// Verifying keys are small, and so is their number; more than this are forgotten at once.
const KEYS: usize = 64;

/// Checks proofs, with the verifying keys that it has seen.
#[derive(Clone)]
pub struct Checker {
    links: Links,
    keys: Arc<Mutex<HashMap<[u8; 32], Arc<Verifier>>>>,
}

impl Checker {
    /// Knows no key yet; asks engines for them.
    pub fn new(links: Links) -> Self {
        Self { links, keys: Arc::default() }
    }

    /// Checks a job's proofs.
    pub async fn check(&self, work: &Verification) -> Result<(), VerifyFault> {
        for (index, proof) in work.proofs.iter().enumerate() {
            if work.simulated {
                continue;
            }
            let wrong = |what: String| VerifyFault::Wrong(format!("partition {index}: {what}"));
            let digest: [u8; 32] = proof
                .verifying_key_digest
                .as_slice()
                .try_into()
                .map_err(|_| wrong("the engine did not say which verifying key its proof is for".into()))?;
            if work.verifying_key.is_some_and(|expected| expected != digest) {
                return Err(wrong("the proof is for another verifying key than the Circuit's".into()));
            }
            let verifier = self.verifier(digest, &work.pods).await?;
            let proof = proof.clone();
            // Milliseconds of mathematics: not on a thread that serves connections.
            let verified = tokio::task::spawn_blocking(move || verify(&verifier, &proof)).await;
            match verified {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Err(wrong("the proof does not verify".into())),
                Ok(Err(message)) => return Err(wrong(message)),
                Err(_) => return Err(VerifyFault::NoKey("the check itself failed".into())),
            }
        }
        Ok(())
    }

    async fn verifier(&self, digest: [u8; 32], pods: &[String]) -> Result<Arc<Verifier>, VerifyFault> {
        let known = |keys: &HashMap<_, Arc<Verifier>>| keys.get(&digest).cloned();
        if let Some(verifier) = known(&self.keys.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(verifier);
        }
        let mut last = "no pod is connected".to_owned();
        for pod in pods {
            let Some(mut client) = self.links.client(pod) else { continue };
            let request = v1::VerifyingKeyRequest { digest: digest.to_vec() };
            match tokio::time::timeout(CALL, client.verifying_key(request)).await {
                Err(_) => last = "a pod does not answer".to_owned(),
                Ok(Err(status)) => last = status.message().to_owned(),
                Ok(Ok(response)) => match VerifyingKey::from_json(&response.into_inner().json) {
                    Ok(key) if key.digest() == digest => {
                        let verifier = Arc::new(Verifier::new(&key));
                        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
                        if keys.len() >= KEYS {
                            keys.clear();
                        }
                        keys.insert(digest, Arc::clone(&verifier));
                        return Ok(verifier);
                    }
                    Ok(_) => last = "an engine sent another verifying key than asked for".into(),
                    Err(error) => last = error.to_string(),
                },
            }
        }
        Err(VerifyFault::NoKey(format!("the verifying key could not be had: {last}")))
    }
}

fn verify(verifier: &Verifier, proof: &v1::PartitionProof) -> Result<bool, String> {
    let curve = Curve::from_snarkjs_name(&proof.curve).ok_or_else(|| format!("`{}` is no curve", proof.curve))?;
    let points = Proof::from_bytes(curve, &proof.proof).map_err(|error| error.to_string())?;
    verifier.verify(&points, &limbs(&proof.public_signals)).map_err(|error| error.to_string())
}

/// The ConfigMap of a job's output: `proof.json` and `public.json` as snarkjs has them, and the plain bytes.
pub fn output(job: &JobObject, name: &str, proofs: &[v1::PartitionProof]) -> ConfigMap {
    let mut data = BTreeMap::new();
    for (index, proof) in proofs.iter().enumerate() {
        let suffix = if proofs.len() == 1 { String::new() } else { format!("-{index}") };
        let curve = Curve::from_snarkjs_name(&proof.curve);
        let json = curve.and_then(|curve| Proof::from_bytes(curve, &proof.proof).ok()?.to_json().ok());
        data.extend(json.map(|json| (format!("proof{suffix}.json"), json)));
        data.insert(format!("public{suffix}.json"), public::to_json(&limbs(&proof.public_signals)));
    }
    let bytes = proofs.iter().flat_map(|proof| proof.proof.iter().copied()).collect();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(job.meta.key.namespace.clone()),
            labels: Some(BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())])),
            owner_references: Some(vec![owner::of("ProofJob", &job.meta)]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        binary_data: Some(BTreeMap::from([("proof.bin".to_owned(), ByteString(bytes))])),
        ..ConfigMap::default()
    }
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
