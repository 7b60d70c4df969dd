//! Peers as child processes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;

use super::cost::{self, Cost};
use crate::error::CliError;

/// What a peer that loads a key by itself took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Peer {
    /// Loading the key.
    pub load: Cost,
    /// One proof.
    pub prove: Cost,
}

/// `snarkjs groth16 prove`, from its start to the written proof: it loads the key each time.
pub fn snarkjs(command: &Path, zkey: &Path, wtns: &Path, folder: &Path, repeat: u16) -> Result<Cost, CliError> {
    let mut costs = Vec::new();
    for _ in 0..repeat {
        let mut node = Command::new("node");
        node.arg(command).args(["groth16", "prove"]).arg(zkey).arg(wtns);
        node.arg(folder.join("snarkjs-proof.json")).arg(folder.join("snarkjs-public.json"));
        costs.push(cost::of_child(&mut node)?);
    }
    Ok(Cost::median(costs))
}

/// ark-circom and ark-groth16, through the program in `tests/bench/peers`.
pub fn ark(command: &Path, zkey: &Path, wtns: &Path, repeat: u16) -> Result<Peer, CliError> {
    let failed = |what: String| CliError::Engine(format!("{}: {what}", command.display()));
    let output = Command::new(command)
        .arg("ark")
        .arg(zkey)
        .arg(wtns)
        .arg(repeat.to_string())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))?;
    let figure = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    Ok(Peer {
        load: Cost { wall: figure("loadWall"), cpu: figure("loadCpu") },
        prove: Cost { wall: figure("proveWall"), cpu: figure("proveCpu") },
    })
}
