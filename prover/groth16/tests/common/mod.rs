//! Fixtures, and containers taken apart so that a test can break one thing in them.
#![allow(dead_code, missing_docs)]

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use ark_ec::AffineRepr;
use ark_ff::{BigInteger, PrimeField};
use proofmill_groth16::curve::Curve;
use proofmill_groth16::key::import::{ImportControl, ImportError, import_zkey};
use proofmill_groth16::key::layout::Header;

pub fn fixture_path(curve: Curve, name: &str) -> PathBuf {
    let root = PathBuf::from("../../tests/fixtures/circom/chain");
    root.join(curve.snarkjs_name()).join(name)
}

pub fn fixture(curve: Curve, name: &str) -> Vec<u8> {
    std::fs::read(fixture_path(curve, name)).unwrap()
}

/// chain.r1cs, unpacked.
pub fn chain_r1cs(curve: Curve) -> Vec<u8> {
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut Cursor::new(fixture(curve, "chain.r1cs.xz")), &mut bytes).unwrap();
    bytes
}

/// Imports bytes into bytes.
pub fn import(zkey: &[u8]) -> Result<(Header, Vec<u8>), ImportError> {
    let mut sink = Cursor::new(Vec::new());
    let header = import_zkey(&zkey, &mut sink, &ImportControl::QUIET)?;
    Ok((header, sink.into_inner()))
}

/// Runs something that must end within a minute, so that a hang fails the test instead of stalling it. (It takes
/// milliseconds; the machine may be busy.)
pub fn within_time<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let result = work();
        let _ = sender.send(());
        result
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = receiver.recv_timeout(Duration::from_secs(60)) {
        panic!("{name}: hangs");
    }
    worker.join().unwrap_or_else(|_| panic!("{name}: panics"))
}

/// The process's largest address space so far stays below this: no absurd length was ever allocated.
pub fn assert_no_wild_allocation() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 3 << 20, "the address space grew to {kib} KiB");
}

/// A container taken apart.
#[derive(Clone)]
pub struct Parts {
    pub magic: [u8; 4],
    pub version: u32,
    /// Written instead of the true number of sections.
    pub count: Option<u32>,
    /// (id, payload, length to write instead of the true one).
    pub sections: Vec<(u32, Vec<u8>, Option<u64>)>,
    pub tail: Vec<u8>,
}

impl Parts {
    pub fn of(file: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let mut sections = Vec::new();
        let mut at = 12;
        for _ in 0..number(8) {
            let length = u64::from_le_bytes(file[at + 4..at + 12].try_into().unwrap()) as usize;
            sections.push((number(at), file[at + 12..at + 12 + length].to_vec(), None));
            at += 12 + length;
        }
        assert_eq!(at, file.len());
        let magic = file[..4].try_into().unwrap();
        Self { magic, version: number(4), count: None, sections, tail: Vec::new() }
    }

    pub fn section(&mut self, id: u32) -> &mut Vec<u8> {
        &mut self.entry(id).1
    }

    pub fn entry(&mut self, id: u32) -> &mut (u32, Vec<u8>, Option<u64>) {
        self.sections.iter_mut().find(|section| section.0 == id).unwrap()
    }

    pub fn put_u32(&mut self, id: u32, at: usize, value: u32) {
        self.section(id)[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn get_u32(&mut self, id: u32, at: usize) -> u32 {
        u32::from_le_bytes(self.section(id)[at..at + 4].try_into().unwrap())
    }

    pub fn put(&mut self, id: u32, at: usize, bytes: &[u8]) {
        self.section(id)[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = self.magic.to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.count.unwrap_or(self.sections.len() as u32).to_le_bytes());
        for (id, payload, length) in &self.sections {
            file.extend(id.to_le_bytes());
            file.extend(length.unwrap_or(payload.len() as u64).to_le_bytes());
            file.extend(payload);
        }
        file.extend(&self.tail);
        file
    }
}

/// Offsets within a zkey's header section.
pub struct HeaderPlaces {
    pub n8q: usize,
    pub q: usize,
    pub n8r: usize,
    pub r: usize,
    pub variables: usize,
    pub public: usize,
    pub domain: usize,
    pub alpha1: usize,
    pub beta1: usize,
    pub beta2: usize,
    pub gamma2: usize,
    pub delta1: usize,
    pub delta2: usize,
}

impl HeaderPlaces {
    pub fn on(curve: Curve) -> Self {
        let n = curve.base_field_bytes();
        let (r, g1, g2) = (8 + n, 2 * n, 4 * n);
        let alpha1 = r + 32 + 12;
        Self {
            n8q: 0,
            q: 4,
            n8r: 4 + n,
            r,
            variables: r + 32,
            public: r + 36,
            domain: r + 40,
            alpha1,
            beta1: alpha1 + g1,
            beta2: alpha1 + 2 * g1,
            gamma2: alpha1 + 2 * g1 + g2,
            delta1: alpha1 + 2 * g1 + 2 * g2,
            delta2: alpha1 + 3 * g1 + 2 * g2,
        }
    }
}

fn limbs(limbs: &[u64]) -> Vec<u8> {
    limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect()
}

/// Twice the generator of G1, as zkeys store it.
pub fn other_g1(curve: Curve) -> Vec<u8> {
    match curve {
        Curve::Bn254 => {
            let p: ark_bn254::G1Affine = (ark_bn254::G1Affine::generator() + ark_bn254::G1Affine::generator()).into();
            [limbs(&p.x.0.0), limbs(&p.y.0.0)].concat()
        }
        Curve::Bls12381 => {
            let p: ark_bls12_381::G1Affine =
                (ark_bls12_381::G1Affine::generator() + ark_bls12_381::G1Affine::generator()).into();
            [limbs(&p.x.0.0), limbs(&p.y.0.0)].concat()
        }
    }
}

/// The generator of G1, as zkeys store it.
pub fn generator_g1(curve: Curve) -> Vec<u8> {
    match curve {
        Curve::Bn254 => {
            let p = ark_bn254::G1Affine::generator();
            [limbs(&p.x.0.0), limbs(&p.y.0.0)].concat()
        }
        Curve::Bls12381 => {
            let p = ark_bls12_381::G1Affine::generator();
            [limbs(&p.x.0.0), limbs(&p.y.0.0)].concat()
        }
    }
}

/// A point of the curve in G2 that is not in the subgroup, as zkeys store it.
pub fn stray_g2(curve: Curve) -> Vec<u8> {
    match curve {
        Curve::Bn254 => (1u64..)
            .filter_map(|x| ark_bn254::G2Affine::get_point_from_x_unchecked(x.into(), true))
            .find(|p| !p.is_in_correct_subgroup_assuming_on_curve())
            .map(|p| [p.x.c0, p.x.c1, p.y.c0, p.y.c1].map(|c| limbs(&c.0.0)).concat())
            .unwrap(),
        Curve::Bls12381 => (1u64..)
            .filter_map(|x| ark_bls12_381::G2Affine::get_point_from_x_unchecked(x.into(), true))
            .find(|p| !p.is_in_correct_subgroup_assuming_on_curve())
            .map(|p| [p.x.c0, p.x.c1, p.y.c0, p.y.c1].map(|c| limbs(&c.0.0)).concat())
            .unwrap(),
    }
}

/// A point of BLS12-381's curve in G1 that is not in the subgroup. (BN254 has none: its order is prime.)
pub fn stray_g1() -> Vec<u8> {
    (1u64..)
        .filter_map(|x| ark_bls12_381::G1Affine::get_point_from_x_unchecked(x.into(), true))
        .find(|p| !p.is_in_correct_subgroup_assuming_on_curve())
        .map(|p| [p.x, p.y].map(|c| limbs(&c.0.0)).concat())
        .unwrap()
}

/// (0, y) on BLS12-381: y = 2, of order 3.
pub fn zero_x_g1(curve: Curve) -> Vec<u8> {
    let two = match curve {
        Curve::Bn254 => limbs(&ark_bn254::Fq::from(2u64).0.0),
        Curve::Bls12381 => limbs(&ark_bls12_381::Fq::from(2u64).0.0),
    };
    [vec![0; curve.base_field_bytes()], two].concat()
}

/// q or r + k, little-endian.
pub fn base_modulus_plus(curve: Curve, k: u64) -> Vec<u8> {
    match curve {
        Curve::Bn254 => {
            let mut q = ark_bn254::Fq::MODULUS;
            q.add_with_carry(&k.into());
            q.to_bytes_le()
        }
        Curve::Bls12381 => {
            let mut q = ark_bls12_381::Fq::MODULUS;
            q.add_with_carry(&k.into());
            q.to_bytes_le()
        }
    }
}
