//! The key as a file: sections in the order of a fresh `snarkjs groth16 setup`, written as they are computed.

use std::io::{self, Write};

use ark_ec::AffineRepr;
use ark_ec::pairing::Pairing;
use bytemuck::Pod;
use proofmill_kernels::batch::fixed_base;
use proofmill_kernels::curve::{Affine, CurveField};
use proofmill_kernels::field::{Field, PrimeField};
use rayon::prelude::*;

use super::SetupError;
use super::coefficients;
use super::qap::{Qap, vanishing, weights};
use super::trapdoor::Trapdoor;
use crate::curve::{Reduction, Suite};
use crate::format::container::ZKEY;
use crate::format::r1cs::R1cs;
use crate::format::source::ReadAt;
use crate::format::zkey::{COEFFICIENT_BYTES, DEV_SETUP_MARK, section};

/// Points that are computed and written at a time: bounds memory and lets all threads work.
const CHUNK: usize = 1 << 16;
/// Groth16's number in section 1.
const GROTH16: u32 = 1;

/// Writes the key; the bytes written.
pub(super) fn write_key<S: Suite, R: ReadAt>(
    r1cs: &R1cs<R>,
    qap: Qap<S::Fr>,
    trapdoor: &Trapdoor<S>,
    out: &mut impl Write,
) -> Result<u64, SetupError> {
    let mut out = Counted { out, bytes: 0 };
    let (variables, public, n) = (qap.a.len(), qap.public, 1usize << qap.domain_log);
    let g1 = 2 * S::CURVE.base_field_bytes() as u64;
    let generators = Generators::<S>::new();

    out.write_all(b"zkey")?;
    out.numbers(&[ZKEY.version, 11])?;
    out.section(section::PROTOCOL, 4)?;
    out.numbers(&[GROTH16])?;
    write_header(&mut out, &qap, trapdoor, &generators)?;

    out.section(section::COEFFICIENTS, 4 + COEFFICIENT_BYTES * u64::from(qap.entries))?;
    out.numbers(&[qap.entries])?;
    coefficients::write::<S, R>(r1cs, public as u32, &mut out)?;

    let Qap { a, b, mut c, domain_log, .. } = qap;
    out.section(section::IC, g1 * (public as u64 + 1))?;
    combine::<S>(&a, &b, &mut c, trapdoor);
    let (ic, private) = c.split_at_mut(public + 1);
    out.points(&generators.g1, ic)?;

    let one_by_delta = trapdoor.delta.inv();
    out.section(section::H, g1 * n as u64)?;
    // The odd half of the domain of twice the size.
    let omega = S::root_of_unity(Reduction::Circom, domain_log + 1);
    let scale = vanishing(&trapdoor.tau, domain_log + 1).mul(&one_by_delta);
    out.points(&generators.g1, &weights(n, &omega, &omega.sqr(), &trapdoor.tau, &scale))?;

    out.section(section::C, g1 * (variables - public - 1) as u64)?;
    private.par_iter_mut().for_each(|value| *value = value.mul(&one_by_delta));
    out.points(&generators.g1, private)?;

    out.section(section::A, g1 * variables as u64)?;
    out.points(&generators.g1, &a)?;
    out.section(section::B1, g1 * variables as u64)?;
    out.points(&generators.g1, &b)?;
    out.section(section::B2, 2 * g1 * variables as u64)?;
    out.points(&generators.g2, &b)?;

    // The circuit's hash (of a ceremony there is none) and no contributions.
    out.section(section::CONTRIBUTIONS, 68)?;
    out.write_all(&[0; 68])?;
    out.section(section::DEV_SETUP, DEV_SETUP_MARK.len() as u64)?;
    out.write_all(DEV_SETUP_MARK)?;
    out.flush()?;
    Ok(out.bytes)
}

/// c becomes beta a + alpha b + c.
fn combine<S: Suite>(a: &[S::Fr], b: &[S::Fr], c: &mut [S::Fr], trapdoor: &Trapdoor<S>) {
    c.par_iter_mut().zip(a).zip(b).for_each(|((c, a), b)| {
        *c = trapdoor.beta.mul(a).add(&trapdoor.alpha.mul(b)).add(c);
    });
}

fn write_header<S: Suite, W: Write>(
    out: &mut Counted<'_, W>,
    qap: &Qap<S::Fr>,
    trapdoor: &Trapdoor<S>,
    generators: &Generators<S>,
) -> io::Result<()> {
    let Trapdoor { alpha, beta, delta, .. } = trapdoor;
    let q = S::CURVE.base_modulus_bytes();
    let r = S::CURVE.scalar_modulus_bytes();
    let g1 = 2 * q.len();
    out.section(section::HEADER, (4 + q.len() + 4 + r.len() + 3 * 4 + 3 * g1 + 3 * 2 * g1) as u64)?;
    out.numbers(&[q.len() as u32])?;
    out.write_all(&q)?;
    out.numbers(&[r.len() as u32])?;
    out.write_all(&r)?;
    out.numbers(&[qap.a.len() as u32, qap.public as u32, 1 << qap.domain_log])?;
    out.points(&generators.g1, &[*alpha, *beta])?;
    // beta2, gamma2 = the generator, then delta1 and delta2.
    out.points(&generators.g2, &[*beta, S::Fr::ONE])?;
    out.points(&generators.g1, &[*delta])?;
    out.points(&generators.g2, &[*delta])
}

struct Generators<S: Suite> {
    g1: Affine<S::Fq>,
    g2: Affine<S::Fq2>,
}

impl<S: Suite> Generators<S> {
    fn new() -> Self {
        Self {
            g1: S::g1_from_ark(&<S::Ark as Pairing>::G1Affine::generator()),
            g2: S::g2_from_ark(&<S::Ark as Pairing>::G2Affine::generator()),
        }
    }
}

/// Counts what it writes.
struct Counted<'a, W> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write> Counted<'_, W> {
    fn section(&mut self, id: u32, length: u64) -> io::Result<()> {
        self.numbers(&[id])?;
        self.write_all(&length.to_le_bytes())
    }

    fn numbers(&mut self, numbers: &[u32]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.write_all(&number.to_le_bytes()))
    }

    /// Multiples of a generator, in the memory's form, which is the file's.
    fn points<F: CurveField, Fr: PrimeField<Limbs = [u64; 4]>>(
        &mut self,
        base: &Affine<F>,
        scalars: &[Fr],
    ) -> io::Result<()>
    where
        Affine<F>: Pod,
    {
        for scalars in scalars.chunks(CHUNK) {
            let plain: Vec<_> = scalars.par_iter().map(|scalar| scalar.to_plain()).collect();
            let points = fixed_base(base, &plain);
            self.write_all(bytemuck::cast_slice(&points))?;
        }
        Ok(())
    }
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
