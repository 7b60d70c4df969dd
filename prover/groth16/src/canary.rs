//! The canary: a small proof on each curve, made and verified. A device that cannot do this gets no work; it gates readiness
//! at start and the way out of quarantine.
//!
//! The circuit is a chain like that of the fixtures, x to x squared plus k, 60 times: its domain of 2^6 is large enough to
//! show a wrong root of unity. Its keys are made when a [`Canary`] is made: the fixtures' own are 4 MB in the binary and
//! a tenth of a second of checks at each start, these are nothing in the binary and some milliseconds, and a canary's key
//! has no secret to keep. They live in anonymous memory files, so that no folder needs to be writable.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proofmill_kernels::field::{Field, PrimeField};

use crate::assignment::{Assignment, Witness, evaluate_key};
use crate::curve::{Bls12381, Bn254, Curve, Suite};
use crate::device::simulated::SimulatedCircuit;
use crate::device::{Blinding, Device, DeviceError};
use crate::format::r1cs::R1cs;
use crate::key::import::{ImportControl, import_zkey};
use crate::key::{CircuitKey, ProvingKey};
use crate::setup::dev_setup;
use crate::verify::{Verifier, verify_partition};

/// Both canary circuits, ready to prove.
pub struct Canary {
    circuits: Vec<Circuit>,
}

struct Circuit {
    curve: Curve,
    key: Arc<ProvingKey>,
    verifier: Verifier,
    witness: Witness,
    publics: Vec<[u64; 4]>,
}

/// Why there is no canary: a fault of the machine or of this program, not of a device.
#[derive(Debug, thiserror::Error)]
#[error("the canary circuit on {curve} could not be made: {message}")]
pub struct CanaryError {
    curve: Curve,
    message: String,
}

/// Squarings; with two public signals and the constant they fill a domain of 2^6, where the families of roots of unity
/// differ on both curves.
const ROUNDS: u32 = 60;
/// The trapdoor's seed. Anyone may forge canary proofs.
const SEED: [u8; 32] = *b"proofmill canary, no secret here";

impl Canary {
    /// Makes both circuits' keys.
    pub fn new() -> Result<Self, CanaryError> {
        Ok(Self { circuits: vec![circuit::<Bn254>()?, circuit::<Bls12381>()?] })
    }

    /// Proves both circuits on `device` and verifies the proofs. A simulated device, which proves nothing real, makes its
    /// simulated canary instead.
    pub fn prove_and_verify(&self, device: &dyn Device) -> Result<(), DeviceError> {
        for circuit in &self.circuits {
            let key = CircuitKey::Groth16(Arc::clone(&circuit.key));
            let assignment = evaluate_key(&circuit.key, circuit.witness.clone())
                .map_err(|error| fault(device, &format!("its assignment failed: {error}")))?;
            let proof = match prove(device, &key, Assignment::Groth16(assignment)) {
                Err(DeviceError::Mismatch { .. }) => return prove_simulated(device),
                other => other?,
            };
            if !matches!(circuit.verifier.verify(&proof, &circuit.publics), Ok(true)) {
                return Err(fault(device, &format!("its proof on {} does not verify", circuit.curve)));
            }
        }
        Ok(())
    }
}

fn prove(device: &dyn Device, key: &CircuitKey, assignment: Assignment) -> Result<crate::proof::Proof, DeviceError> {
    let mut start = device.prepare(key, assignment, Blinding::Random)?;
    while start.next_phase().is_some() {
        start.step()?;
    }
    device.prove_finish(key, start.into_output()?)
}

fn prove_simulated(device: &dyn Device) -> Result<(), DeviceError> {
    let key = CircuitKey::Simulated(Arc::new(SimulatedCircuit::CANARY));
    let proof = prove(device, &key, Assignment::Simulated { seed: 1 })?;
    match verify_partition(&key, &proof, &[[1, 0, 0, 0]]) {
        Ok(true) => Ok(()),
        _ => Err(fault(device, "its simulated proof does not verify")),
    }
}

fn fault(device: &dyn Device, what: &str) -> DeviceError {
    DeviceError::Fault { device: device.id().to_owned(), message: format!("the canary failed: {what}") }
}

fn circuit<S: Suite>() -> Result<Circuit, CanaryError> {
    let failed = |message: String| CanaryError { curve: S::CURVE, message };
    let (r1cs, values) = chain::<S>();
    let r1cs = R1cs::read(&r1cs[..]).map_err(|error| failed(error.to_string()))?;
    let mut zkey = Vec::new();
    dev_setup(&r1cs, Some(SEED), &mut zkey).map_err(|error| failed(error.to_string()))?;
    let mut file = memory_file().map_err(|error| failed(error.to_string()))?;
    import_zkey(&&zkey[..], &mut file, &ImportControl::QUIET).map_err(|error| failed(error.to_string()))?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let key = Arc::new(ProvingKey::open(Path::new(&path)).map_err(|error| failed(error.to_string()))?);
    Ok(Circuit {
        curve: S::CURVE,
        verifier: Verifier::of_key(&key),
        publics: values[1..=key.info().public as usize].to_vec(),
        witness: Witness { values },
        key,
    })
}

/// A file without a name or a disk.
fn memory_file() -> std::io::Result<File> {
    // SAFETY: the name is a C string; the flags are valid; a negative result is an error.
    let descriptor = unsafe { libc::memfd_create(c"proofmill-canary".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened and that nobody else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// The circuit as an r1cs file, and its witness. Wires: 1, out, k, x, then the values between; public are out and k.
fn chain<S: Suite>() -> (Vec<u8>, Vec<[u64; 4]>) {
    let k = S::Fr::from_u64(5);
    let mut value = S::Fr::from_u64(3);
    let mut values = vec![S::Fr::ONE, S::Fr::ZERO, k, value];
    let mut rows = Vec::new();
    let minus_one = S::Fr::ONE.neg();
    let mut put = |wire: u32, coefficient: &S::Fr| {
        rows.extend(wire.to_le_bytes());
        rows.extend(bytemuck::bytes_of(&coefficient.to_plain()));
    };
    let mut at = 3;
    for round in 0..ROUNDS {
        let next = if round + 1 == ROUNDS { 1 } else { 4 + round };
        value = value.sqr().add(&k);
        match next {
            1 => values[1] = value,
            _ => values.push(value),
        }
        // at * at = next - k
        put(at, &S::Fr::ONE);
        put(at, &S::Fr::ONE);
        put(next, &S::Fr::ONE);
        put(2, &minus_one);
        at = next;
    }
    (r1cs_file(S::CURVE, values.len() as u32, &rows), values.iter().map(PrimeField::to_plain).collect())
}

/// Wraps the rows (four terms each: one, one, two) into the container.
fn r1cs_file(curve: Curve, wires: u32, terms: &[u8]) -> Vec<u8> {
    let number = u32::to_le_bytes;
    let mut constraints = Vec::new();
    for row in terms.chunks_exact(4 * 36) {
        for (count, terms) in [(1, &row[..36]), (1, &row[36..72]), (2, &row[72..])] {
            constraints.extend(number(count));
            constraints.extend(terms);
        }
    }
    let mut header = number(32).to_vec();
    header.extend(curve.scalar_modulus_bytes());
    // Wires, outputs, public inputs, private inputs; labels; constraints.
    [wires, 1, 1, 1].iter().for_each(|count| header.extend(number(*count)));
    header.extend(u64::from(wires).to_le_bytes());
    header.extend(number(ROUNDS));
    let mut file = [b"r1cs", &number(1)[..], &number(2)].concat();
    for (id, payload) in [(1, header), (2, constraints)] {
        file.extend(number(id));
        file.extend((payload.len() as u64).to_le_bytes());
        file.extend(payload);
    }
    file
}

impl SimulatedCircuit {
    /// The canary of a simulated device: takes no time. Such a device does not count it among its partitions, so that it
    /// meets no scripted fault; only a broken device fails it.
    pub const CANARY: Self = Self {
        partitions: 0,
        key_bytes: 0,
        working_set: 0,
        key_load: Duration::ZERO,
        synthesis: Duration::ZERO,
        ntt: Duration::ZERO,
        msm_g1: Duration::ZERO,
        msm_g2: Duration::ZERO,
        transfer: Duration::ZERO,
        finish: Duration::ZERO,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;
    use crate::device::simulated::{Fault, SimulatedDevice, SystemSleeper};

    #[test]
    fn the_cpu_passes() {
        let canary = Canary::new().unwrap();
        let domains: Vec<_> = canary.circuits.iter().map(|circuit| circuit.key.info().domain_log).collect();
        assert_eq!(domains, [6, 6]);
        canary.prove_and_verify(&CpuDevice::new(2).unwrap()).unwrap();
    }

    #[test]
    fn a_wrong_answer_fails() {
        let mut canary = Canary::new().unwrap();
        canary.circuits[1].witness.values[9][0] ^= 1;
        let error = canary.prove_and_verify(&CpuDevice::new(1).unwrap()).unwrap_err();
        assert!(error.to_string().contains("on BLS12-381 does not verify"), "{error}");
    }

    #[test]
    fn a_simulated_device_fails_only_when_it_is_broken() {
        let canary = Canary::new().unwrap();
        let device = SimulatedDevice::new("simulated-0", None, Arc::new(SystemSleeper)).with_fault(0, Fault::Prepare);
        canary.prove_and_verify(&device).unwrap();
        assert_eq!(device.prepared(), 0);
        device.set_broken(true);
        assert!(canary.prove_and_verify(&device).is_err());
        device.set_broken(false);
        canary.prove_and_verify(&device).unwrap();
    }
}
