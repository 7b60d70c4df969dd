//! The device part and the host part of a proof: `prove_start` as steps, `prove_finish`.

/// The sums that `prove_start` leaves; partial window sums per multi-scalar multiplication, to be combined on the host.
pub struct PartialSums {}
