//! What the proving tests share: fixtures, keys made on the spot, small circuits.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proofmill_groth16::assignment::{Assignment, Groth16Assignment, Witness, evaluate_key};
use proofmill_groth16::curve::{Bls12381, Bn254, Curve, Suite};
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::device::{Blinding, Device, DeviceError, ProveStart};
use proofmill_groth16::format::r1cs::R1cs;
use proofmill_groth16::format::wtns::WitnessFile;
use proofmill_groth16::key::import::{ImportControl, import_zkey};
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_groth16::proof::Proof;
use proofmill_groth16::setup::dev_setup;

/// A circuit that can be proved: key, and a witness that satisfies it.
pub struct Case {
    pub key: Arc<ProvingKey>,
    pub witness: Witness,
    pub zkey: Vec<u8>,
}

impl Case {
    pub fn circuit(&self) -> CircuitKey {
        CircuitKey::Groth16(Arc::clone(&self.key))
    }

    pub fn assignment(&self) -> Groth16Assignment {
        self.evaluate(self.witness.clone())
    }

    pub fn evaluate(&self, witness: Witness) -> Groth16Assignment {
        evaluate_key(&self.key, witness).unwrap()
    }

    pub fn publics(&self) -> Vec<[u64; 4]> {
        Assignment::Groth16(self.assignment()).public_signals(&self.circuit())
    }

    pub fn start(&self, device: &CpuDevice, blinding: Blinding) -> Box<dyn ProveStart> {
        device.prepare(&self.circuit(), Assignment::Groth16(self.assignment()), blinding).unwrap()
    }

    pub fn finish(&self, device: &CpuDevice, start: Box<dyn ProveStart>) -> Result<Proof, DeviceError> {
        device.prove_finish(&self.circuit(), start.into_output()?)
    }

    pub fn prove(&self, device: &CpuDevice, blinding: Blinding) -> Proof {
        let mut start = self.start(device, blinding);
        run(&mut *start);
        self.finish(device, start).unwrap()
    }
}

/// Runs all steps; how many there were.
pub fn run(start: &mut dyn ProveStart) -> usize {
    let mut steps = 0;
    while start.next_phase().is_some() {
        assert!(start.remaining() > 0);
        start.step().unwrap();
        steps += 1;
    }
    assert_eq!(start.remaining(), 0);
    steps
}

pub fn fixture(curve: Curve, file: &str) -> PathBuf {
    let root = Path::new("../../tests/fixtures/circom/chain");
    root.join(curve.snarkjs_name()).join(file)
}

/// The chain circuit with the key that snarkjs made.
pub fn chain(curve: Curve) -> Case {
    let zkey = std::fs::read(fixture(curve, "chain.zkey")).unwrap();
    let wtns = std::fs::read(fixture(curve, "chain.wtns")).unwrap();
    Case { key: import(&zkey), witness: WitnessFile::read(&wtns[..]).unwrap().witness, zkey }
}

pub fn import(zkey: &[u8]) -> Arc<ProvingKey> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    import_zkey(&zkey, file.as_file_mut(), &ImportControl::QUIET).unwrap();
    Arc::new(ProvingKey::open(file.path()).unwrap())
}

/// A constraint's three sums of (wire, coefficient).
pub type Row = [Vec<(u32, i64)>; 3];

/// A circuit written by hand, over either field.
#[derive(Clone, Default)]
pub struct Circuit {
    pub wires: u32,
    pub outputs: u32,
    pub inputs: u32,
    pub rows: Vec<Row>,
}

impl Circuit {
    pub fn r1cs(&self, curve: Curve) -> Vec<u8> {
        let number = |n: u32| n.to_le_bytes().to_vec();
        let header = [
            number(32),
            curve.scalar_modulus_bytes().to_vec(),
            number(self.wires),
            number(self.outputs),
            number(self.inputs),
            number(0),
            u64::from(self.wires).to_le_bytes().to_vec(),
            number(self.rows.len() as u32),
        ]
        .concat();
        let mut constraints = Vec::new();
        for terms in self.rows.iter().flatten() {
            constraints.extend(number(terms.len() as u32));
            for (wire, coefficient) in terms {
                constraints.extend(number(*wire));
                constraints.extend(reduce(curve, *coefficient).iter().flat_map(|limb| limb.to_le_bytes()));
            }
        }
        let section =
            |id: u32, payload: &[u8]| [&id.to_le_bytes()[..], &(payload.len() as u64).to_le_bytes(), payload].concat();
        let labels: Vec<u8> = (0..u64::from(self.wires)).flat_map(|label| label.to_le_bytes()).collect();
        [b"r1cs".to_vec(), number(1), number(3), section(1, &header), section(2, &constraints), section(3, &labels)]
            .concat()
    }

    /// With a dev key.
    pub fn case(&self, curve: Curve, witness: Vec<[u64; 4]>) -> Case {
        let r1cs = self.r1cs(curve);
        let mut zkey = Vec::new();
        let summary = dev_setup(&R1cs::read(&r1cs[..]).unwrap(), Some([7; 32]), &mut zkey).unwrap();
        assert_eq!(summary.bytes, zkey.len() as u64);
        Case { key: import(&zkey), witness: Witness { values: witness }, zkey }
    }
}

pub fn reduce(curve: Curve, value: i64) -> [u64; 4] {
    match curve {
        Curve::Bn254 => reduce_in::<Bn254>(value),
        Curve::Bls12381 => reduce_in::<Bls12381>(value),
    }
}

fn reduce_in<S: Suite>(value: i64) -> [u64; 4] {
    use proofmill_kernels::field::{Field, PrimeField};
    let plain = S::Fr::from_u64(value.unsigned_abs());
    if value < 0 { plain.neg().to_plain() } else { plain.to_plain() }
}

/// out = x squared again and again, plus k each time: `rounds` constraints, public out and k.
pub fn squares(curve: Curve, rounds: u32, x: u64, k: u64) -> (Circuit, Vec<[u64; 4]>) {
    match curve {
        Curve::Bn254 => squares_in::<Bn254>(rounds, x, k),
        Curve::Bls12381 => squares_in::<Bls12381>(rounds, x, k),
    }
}

fn squares_in<S: Suite>(rounds: u32, x: u64, k: u64) -> (Circuit, Vec<[u64; 4]>) {
    use proofmill_kernels::field::{Field, PrimeField};
    // Wires: 1, out, k, x, then the values between.
    let mut rows = Vec::new();
    let (kf, mut value) = (S::Fr::from_u64(k), S::Fr::from_u64(x));
    let mut values = vec![S::Fr::ONE, S::Fr::ZERO, kf, value];
    let mut at = 3;
    for round in 0..rounds {
        let next = if round + 1 == rounds { 1 } else { 4 + round };
        rows.push([vec![(at, 1)], vec![(at, 1)], vec![(next, 1), (2, -1)]]);
        value = value.sqr().add(&kf);
        if next == 1 {
            values[1] = value;
        } else {
            values.push(value);
        }
        at = next;
    }
    let circuit = Circuit { wires: values.len() as u32, outputs: 1, inputs: 1, rows };
    (circuit, values.iter().map(PrimeField::to_plain).collect())
}
