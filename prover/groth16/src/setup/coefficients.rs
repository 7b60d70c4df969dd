//! The key's coefficient section: both matrices, with the rows of the public signals.

use std::io::{self, Write};
use std::ops::ControlFlow;

use proofmill_kernels::field::PrimeField;

use super::SetupError;
use crate::curve::Suite;
use crate::format::r1cs::{R1cs, Term};
use crate::format::source::ReadAt;

/// Writes the entries (without their count), in snarkjs's order.
pub(super) fn write<S: Suite, R: ReadAt>(r1cs: &R1cs<R>, public: u32, out: &mut impl Write) -> Result<(), SetupError> {
    let flow = r1cs.for_each(|number, constraint| {
        for (matrix, terms) in [(0, &constraint.a), (1, &constraint.b)] {
            for term in terms {
                if let Err(error) = write_entry::<S>(out, matrix, number, term) {
                    return ControlFlow::Break(error);
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    if let ControlFlow::Break(error) = flow {
        return Err(error.into());
    }
    for signal in 0..=public {
        let one = Term { wire: signal, coefficient: [1, 0, 0, 0] };
        write_entry::<S>(out, 0, r1cs.header().constraints + signal, &one)?;
    }
    Ok(())
}

/// The value is v R^2: twice into Montgomery form.
fn write_entry<S: Suite>(out: &mut impl Write, matrix: u32, row: u32, term: &Term) -> io::Result<()> {
    let value = S::Fr::from_plain(S::Fr::from_plain(term.coefficient).montgomery()).montgomery();
    for number in [matrix, row, term.wire] {
        out.write_all(&number.to_le_bytes())?;
    }
    value.iter().try_for_each(|limb| out.write_all(&limb.to_le_bytes()))
}
