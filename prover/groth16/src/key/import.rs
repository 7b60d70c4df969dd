//! Import: a zkey, read once from front to back, checked in full, into our own format.
//!
//! Structure first; then, while the bytes stream by: canonical coordinates, curve equation, subgroup, ranges of all indices;
//! beta and delta the same scalar in both groups; the digest of exactly these bytes. Heavy checks run on the caller's rayon
//! pool while the next step is read. Memory: a few steps of 8 MiB, 4 bytes a wire, 12 bytes a coefficient.

use std::io;

use proofmill_kernels::curve::Affine;

use super::layout::{Header, KeyFileError, PAGE, Part};
use super::security::classify;
use crate::curve::{Bls12381, Bn254, Curve, Reduction, Suite};
use crate::format::container::{Section, u32_at};
use crate::format::source::{ReadAt, ReadError};
use crate::format::zkey::points::HeaderPoints;
use crate::format::zkey::{Zkey, ZkeyError, section};

mod matrices;
mod output;
mod points;
mod stream;

pub use output::Sink;
pub(crate) use output::write_error;

use output::Output;
use points::Rules;
use stream::Stream;

/// How an import tells its progress and is stopped.
#[derive(Clone, Copy)]
pub struct ImportControl<'a> {
    /// Called with (done, total) bytes of the source, many times a second.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Asked between steps of at most a few tens of milliseconds a thread.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The zkey is malformed.
    #[error(transparent)]
    Zkey(#[from] ZkeyError),
    /// The imported key that was given is malformed.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The source could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The source changed during the import.
    #[error("the key changed while it was imported; write keys to a new file and rename it into place, then try again")]
    SourceChanged,
    /// The source is not what the caller asked for.
    #[error("the key's SHA-256 is {found}, expected {expected}; this is another file, or a damaged download")]
    DigestMismatch {
        /// What was asked for, in hexadecimal.
        expected: String,
        /// What was found, in hexadecimal.
        found: String,
    },
    /// The disk is full.
    #[error("the disk is full while the key is imported ({0}); free space, or choose another cache directory")]
    DiskFull(io::Error),
    /// The imported key could not be written.
    #[error("cannot write the imported key: {0}")]
    Write(io::Error),
    /// The system's random generator, which the subgroup's test needs, failed.
    #[error("the system's random generator failed: {0}")]
    Randomness(String),
    /// The caller stopped it.
    #[error("the import was cancelled")]
    Cancelled,
}

/// Imports a zkey from `source` into `sink`, which is empty. The header that was written.
pub fn import_zkey(
    source: &dyn ReadAt,
    sink: &mut dyn Sink,
    control: &ImportControl<'_>,
) -> Result<Header, ImportError> {
    let zkey = Zkey::read(source)?;
    match zkey.header.curve {
        Curve::Bn254 => Importer::<Bn254>::run(source, &zkey, sink, control),
        Curve::Bls12381 => Importer::<Bls12381>::run(source, &zkey, sink, control),
    }
}

/// Bytes that the imported key has at most: as if no point were at infinity and no coefficient occurred twice.
pub fn imported_bytes(zkey: &Zkey) -> u64 {
    let header = &zkey.header;
    let (g1, g2) = (header.g1_bytes(), header.g2_bytes());
    let (variables, public, domain) = (u64::from(header.variables), u64::from(header.public), header.domain());
    let points = variables * (2 * g1 + g2 + 2 * 4) + (variables - public - 1) * (g1 + 4) + domain * g1;
    let verifying = 3 * g1 + 3 * g2 + (public + 1) * g1;
    let matrices = 2 * (domain + 1) * 4 + u64::from(header.coefficients) * (4 + 4 + 32);
    PAGE * (Part::ALL.len() as u64 + 1) + verifying + points + matrices
}

impl ImportControl<'_> {
    /// No progress, never cancelled.
    pub const QUIET: ImportControl<'static> = ImportControl { progress: &|_, _| (), cancelled: &|| false };

    pub(crate) fn check(&self) -> Result<(), ImportError> {
        if (self.cancelled)() { Err(ImportError::Cancelled) } else { Ok(()) }
    }
}

/// What an import gathers besides what it writes.
struct Importer<'a, S: Suite> {
    zkey: &'a Zkey,
    contributions: Option<u32>,
    constraints: u32,
    ic: Vec<Affine<S::Fq>>,
    /// The wires of whichever of B1 and B2 came first.
    b_wires: Option<Vec<u32>>,
    /// For the subgroup's test.
    seed: [u8; 32],
}

impl<'a, S: Suite> Importer<'a, S> {
    fn run(
        source: &dyn ReadAt,
        zkey: &'a Zkey,
        sink: &mut dyn Sink,
        control: &ImportControl<'_>,
    ) -> Result<Header, ImportError> {
        let points = HeaderPoints::<S>::read(zkey.header_points());
        points.check()?;
        let contributions = zkey.contributions(source)?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| ImportError::Randomness(error.to_string()))?;
        let mut importer = Self { zkey, contributions, constraints: 0, ic: Vec::new(), b_wires: None, seed };
        let mut stream = Stream::new(source, control);
        let mut output = Output::new(sink)?;
        importer.container(&mut stream, &mut output)?;
        output.section(Part::Verifying, &verifying_bytes(&points, &importer.ic))?;
        let header = Header {
            curve: S::CURVE,
            reduction: Reduction::Circom,
            security: classify(zkey.dev_setup, points.delta_is_gamma()),
            contributions,
            variables: zkey.header.variables,
            public: zkey.header.public,
            constraints: importer.constraints,
            domain_log: zkey.header.domain_log,
            source_digest: stream.finish(),
            source_bytes: source.len(),
            file_bytes: 0,
            entries: Vec::new(),
        };
        output.finish(header)
    }

    /// Streams the whole container: its own bytes must be those that `Zkey::read` has checked.
    fn container(&mut self, stream: &mut Stream<'_>, output: &mut Output<'_>) -> Result<(), ImportError> {
        let sections = self.zkey.container.sections();
        let count = sections.len() as u32;
        stream.expect(&[&b"zkey"[..], &1u32.to_le_bytes(), &count.to_le_bytes()].concat())?;
        for place in sections {
            stream.expect(&[&place.id.to_le_bytes()[..], &place.length.to_le_bytes()].concat())?;
            self.section(*place, stream, output)?;
        }
        Ok(())
    }

    fn section(&mut self, place: Section, stream: &mut Stream<'_>, output: &mut Output<'_>) -> Result<(), ImportError> {
        let header = &self.zkey.header;
        let seed = self.seed;
        let rules = |name, count, first_wire| Rules { name, count, first_wire, infinities: true, seed: &seed };
        let all = |name| rules(name, u64::from(header.variables), 0);
        let (variables, public) = (u64::from(header.variables), u64::from(header.public));
        match place.id {
            section::PROTOCOL => stream.expect(&1u32.to_le_bytes()),
            section::HEADER => stream.expect(&self.zkey.header_bytes),
            section::IC => {
                self.ic = points::read::<S::Fq>(stream, &rules("IC", public + 1, 0))?;
                Ok(())
            }
            section::COEFFICIENTS => {
                stream.expect(&header.coefficients.to_le_bytes())?;
                self.constraints = matrices::copy::<S>(stream, output, header)?;
                Ok(())
            }
            section::A => {
                let wires = points::copy::<S::Fq>(stream, output, Part::A, &all("A"))?;
                output.section(Part::AWires, bytemuck::cast_slice(&wires))
            }
            section::B1 => {
                let wires = points::copy::<S::Fq>(stream, output, Part::B1, &all("B1"))?;
                self.b_wires(wires, output)
            }
            section::B2 => {
                let wires = points::copy::<S::Fq2>(stream, output, Part::B2, &all("B2"))?;
                self.b_wires(wires, output)
            }
            section::C => {
                let rules = rules("C", variables - public - 1, header.public + 1);
                let wires = points::copy::<S::Fq>(stream, output, Part::C, &rules)?;
                output.section(Part::CWires, bytemuck::cast_slice(&wires))
            }
            section::H => {
                // A point of H at infinity would mean that tau lies in the domain: everyone could find it.
                let rules = Rules { infinities: false, ..rules("H", header.domain(), 0) };
                points::copy::<S::Fq>(stream, output, Part::H, &rules).map(|_| ())
            }
            section::CONTRIBUTIONS => self.contributions(place, stream),
            _ => stream.skip(place.length),
        }
    }

    /// B1_i and B2_i are one scalar in two groups, so both are at infinity or none: one list of wires serves both.
    fn b_wires(&mut self, wires: Vec<u32>, output: &mut Output<'_>) -> Result<(), ImportError> {
        let Some(first) = self.b_wires.take() else {
            output.section(Part::BWires, bytemuck::cast_slice(&wires))?;
            self.b_wires = Some(wires);
            return Ok(());
        };
        if first == wires {
            return Ok(());
        }
        let common = first.iter().zip(&wires).take_while(|(a, b)| a == b).count();
        let wire = first.get(common).into_iter().chain(wires.get(common)).min().copied().unwrap_or(0);
        Err(ZkeyError::InconsistentB { wire }.into())
    }

    fn contributions(&self, place: Section, stream: &mut Stream<'_>) -> Result<(), ImportError> {
        let mut head = [0; 68];
        stream.read(&mut head)?;
        if self.contributions != Some(u32_at(&head, 64)) {
            return Err(ImportError::SourceChanged);
        }
        stream.skip(place.length - head.len() as u64)
    }
}

/// The order of [`Part::Verifying`].
fn verifying_bytes<S: Suite>(points: &HeaderPoints<S>, ic: &[Affine<S::Fq>]) -> Vec<u8> {
    let g1 = [points.alpha1, points.beta1, points.delta1];
    let g2 = [points.beta2, points.gamma2, points.delta2];
    [bytemuck::cast_slice(&g1), bytemuck::cast_slice(&g2), bytemuck::cast_slice(ic)].concat()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| text + &format!("{byte:02x}"))
}
