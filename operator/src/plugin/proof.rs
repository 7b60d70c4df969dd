//! A job's proof as snarkjs has it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use proofmill_crds::circuit::Curve as ShownCurve;
use proofmill_crds::{Circuit, ProofJob};
use proofmill_groth16::curve::Curve;
use proofmill_groth16::proof::Proof;

use super::PluginError;
use super::queue::outcome;

/// Prints it, or writes its files.
pub async fn run(
    client: &Client,
    namespace: &str,
    job: &ProofJob,
    public: bool,
    out: Option<PathBuf>,
) -> Result<(), PluginError> {
    let name = job.name_any();
    let missing = |why: &str| PluginError::Missing(format!("{name} {why}"));
    let status = job.status.as_ref().ok_or_else(|| missing("has no proof yet"))?;
    let Some(text) = &status.proof else {
        let why = outcome(job).map_or_else(String::new, |o| format!(" ({}: {})", o.reason, o.message));
        return Err(missing(&format!("has no proof{why}")));
    };
    let bytes = BASE64.decode(text).map_err(|_| missing("has a proof that is not base64"))?;
    if status.public_signals_digest.is_some() && (public || out.is_some()) {
        return Err(missing(
            "has more public signals than a status holds: name a ConfigMap in spec.output and read them there",
        ));
    }
    let signals =
        format!("[{}]\n", status.public_signals.iter().map(|s| format!("\"{s}\"")).collect::<Vec<_>>().join(","));
    if public {
        print!("{signals}");
        return Ok(());
    }
    let circuits: Api<Circuit> = Api::namespaced(client.clone(), namespace);
    let circuit = circuits.get_opt(&job.spec.circuit_ref.name).await?;
    let shown = circuit.and_then(|circuit| circuit.status?.curve);
    let json =
        json(&bytes, shown).ok_or_else(|| missing("has a proof that snarkjs has no form for (a simulated one?)"));
    match out {
        None => println!("{}", json?),
        Some(folder) => {
            write(&folder, "proof.bin", &bytes)?;
            write(&folder, "public.json", signals.as_bytes())?;
            if let Ok(json) = json {
                write(&folder, "proof.json", json.as_bytes())?;
            }
            println!("{}", folder.display());
        }
    }
    Ok(())
}

/// The curve is the circuit's, or told by the length: 256 bytes on BN254, 192 on BLS12-381.
fn json(bytes: &[u8], shown: Option<ShownCurve>) -> Option<String> {
    let curve = match (shown, bytes.len()) {
        (Some(ShownCurve::Bn254), _) | (None, 256) => Curve::Bn254,
        (Some(ShownCurve::Bls12381), _) | (None, 192) => Curve::Bls12381,
        (None, _) => return None,
    };
    Proof::from_bytes(curve, bytes).ok()?.to_json().ok()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), PluginError> {
    let path = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
    written.map_err(|error| PluginError::File { path: path.display().to_string(), error })
}
