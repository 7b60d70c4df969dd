//! Single points between memory, snarkjs's JSON and canonical bytes; their checks. For cold paths: proofs, verifying keys.

use ark_ec::AffineRepr;
use ark_ec::pairing::Pairing;
use ark_serialize::Valid;
use proofmill_kernels::curve::Affine;
use proofmill_kernels::field::{Field, PrimeField};
use serde_json::{Value, json};

use crate::curve::Suite;
use crate::format::container::below;
use crate::format::decimal::Decimal;

/// What is wrong with a point. No coordinates: a proof's may be private until it is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// A coordinate that is not reduced.
    #[error("a coordinate is not below the base field's prime")]
    Coordinate,
    /// The third coordinate is neither 1 nor, with (0, 1), 0.
    #[error("the point is not in snarkjs's form [x, y, 1]")]
    NotAffine,
    /// Not on the curve.
    #[error("the point is not on the curve")]
    OffCurve,
    /// Not in the subgroup.
    #[error("the point is not in the subgroup of prime order")]
    OutsideSubgroup,
    /// At infinity where that is not allowed.
    #[error("the point is at infinity")]
    Infinity,
}

/// Checks canonical coordinates, curve equation, subgroup.
pub fn check_g1<S: Suite>(point: &Affine<S::Fq>, infinity_allowed: bool) -> Result<(), PointError> {
    check_in_memory(point, infinity_allowed)?;
    S::g1_to_ark(point).check().map_err(|_| PointError::OutsideSubgroup)
}

/// Checks canonical coordinates, curve equation, subgroup.
pub fn check_g2<S: Suite>(point: &Affine<S::Fq2>, infinity_allowed: bool) -> Result<(), PointError> {
    check_in_memory(point, infinity_allowed)?;
    S::g2_to_ark(point).check().map_err(|_| PointError::OutsideSubgroup)
}

/// Whether two valid points are the same multiple of their groups' generators: e(one, G2) = e(G1, two).
pub fn same_scalar<S: Suite>(one: &Affine<S::Fq>, two: &Affine<S::Fq2>) -> bool {
    let g1 = <<S::Ark as Pairing>::G1Affine as AffineRepr>::generator();
    let g2 = <<S::Ark as Pairing>::G2Affine as AffineRepr>::generator();
    S::Ark::pairing(S::g1_to_ark(one), g2) == S::Ark::pairing(g1, S::g2_to_ark(two))
}

/// snarkjs's [x, y, "1"]; infinity is ["0", "1", "0"].
pub fn g1_to_json<S: Suite>(point: &Affine<S::Fq>) -> Value {
    if point.is_infinity() {
        return json!(["0", "1", "0"]);
    }
    json!([element_to_decimal(&point.x), element_to_decimal(&point.y), "1"])
}

/// snarkjs's [[x0, x1], [y0, y1], ["1", "0"]].
pub fn g2_to_json<S: Suite>(point: &Affine<S::Fq2>) -> Value {
    if point.is_infinity() {
        return json!([["0", "0"], ["1", "0"], ["0", "0"]]);
    }
    let pair = |element| S::fq2_parts(element).map(|part| element_to_decimal(&part));
    json!([pair(&point.x), pair(&point.y), ["1", "0"]])
}

/// Reads what [`g1_to_json`] writes. Checks the form and ranges only.
pub fn g1_from_json<S: Suite>([x, y, z]: &[Decimal; 3]) -> Result<Affine<S::Fq>, PointError> {
    match (x.as_str(), y.as_str(), z.as_str()) {
        ("0", "1", "0") => Ok(Affine::INFINITY),
        (_, _, "1") => nonzero(Affine { x: element::<S>(x)?, y: element::<S>(y)? }),
        _ => Err(PointError::NotAffine),
    }
}

/// Reads what [`g2_to_json`] writes. Checks the form and ranges only.
pub fn g2_from_json<S: Suite>([x, y, z]: &[[Decimal; 2]; 3]) -> Result<Affine<S::Fq2>, PointError> {
    let texts = |pair: &[Decimal; 2]| (pair[0].as_str() == "0", pair[0].as_str() == "1", pair[1].as_str() == "0");
    if texts(z) == (true, false, true) && texts(y) == (false, true, true) && texts(x) == (true, false, true) {
        return Ok(Affine::INFINITY);
    }
    if texts(z) != (false, true, true) {
        return Err(PointError::NotAffine);
    }
    let pair = |pair: &[Decimal; 2]| Ok(S::fq2([element::<S>(&pair[0])?, element::<S>(&pair[1])?]));
    nonzero(Affine { x: pair(x)?, y: pair(y)? })
}

/// x then y, plain, big-endian; infinity is zeros.
pub fn g1_to_bytes<S: Suite>(point: &Affine<S::Fq>) -> Vec<u8> {
    [&point.x, &point.y].into_iter().flat_map(element_to_bytes).collect()
}

/// x then y, plain, big-endian, of each c1 before c0 (EIP-197's order); infinity is zeros.
pub fn g2_to_bytes<S: Suite>(point: &Affine<S::Fq2>) -> Vec<u8> {
    let pairs = [S::fq2_parts(&point.x), S::fq2_parts(&point.y)];
    pairs.iter().flat_map(|[c0, c1]| [c1, c0]).flat_map(element_to_bytes).collect()
}

/// Reads what [`g1_to_bytes`] writes. Checks ranges only.
pub fn g1_from_bytes<S: Suite>(bytes: &[u8]) -> Result<Affine<S::Fq>, PointError> {
    let [x, y] = elements::<S, 2>(bytes)?;
    Ok(Affine { x, y })
}

/// Reads what [`g2_to_bytes`] writes. Checks ranges only.
pub fn g2_from_bytes<S: Suite>(bytes: &[u8]) -> Result<Affine<S::Fq2>, PointError> {
    let [x1, x0, y1, y0] = elements::<S, 4>(bytes)?;
    Ok(Affine { x: S::fq2([x0, x1]), y: S::fq2([y0, y1]) })
}

fn check_in_memory<F: proofmill_kernels::curve::CurveField>(
    point: &Affine<F>,
    infinity_allowed: bool,
) -> Result<(), PointError> {
    if !point.x.is_canonical() || !point.y.is_canonical() {
        return Err(PointError::Coordinate);
    }
    if point.x.is_zero() && point.y.is_zero() {
        return if infinity_allowed { Ok(()) } else { Err(PointError::Infinity) };
    }
    if !point.is_on_curve() {
        return Err(PointError::OffCurve);
    }
    Ok(())
}

/// (0, 0) is how memory marks infinity; in JSON it is just a pair off the curve.
fn nonzero<F: Field>(point: Affine<F>) -> Result<Affine<F>, PointError> {
    if point.x.is_zero() && point.y.is_zero() { Err(PointError::OffCurve) } else { Ok(point) }
}

fn element_to_decimal<F: PrimeField>(element: &F) -> String {
    Decimal::from_limbs(element.to_plain().as_ref()).as_str().to_owned()
}

fn element<S: Suite>(decimal: &Decimal) -> Result<S::Fq, PointError> {
    let wide: [u64; 6] = decimal.to_limbs().ok_or(PointError::Coordinate)?;
    from_plain(&wide)
}

fn element_to_bytes<F: PrimeField>(element: &F) -> Vec<u8> {
    element.to_plain().as_ref().iter().rev().flat_map(|limb| limb.to_be_bytes()).collect()
}

fn elements<S: Suite, const N: usize>(bytes: &[u8]) -> Result<[S::Fq; N], PointError> {
    let size = S::CURVE.base_field_bytes();
    let mut elements = [S::Fq::ZERO; N];
    for (element, chunk) in elements.iter_mut().zip(bytes.chunks_exact(size)) {
        let mut wide = [0; 6];
        for (limb, word) in wide.iter_mut().zip(chunk.rchunks_exact(8)) {
            *limb = word.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        }
        *element = from_plain(&wide)?;
    }
    Ok(elements)
}

/// From plain limbs, refused unless below the modulus.
fn from_plain<F: PrimeField>(wide: &[u64; 6]) -> Result<F, PointError> {
    let mut limbs = F::MODULUS;
    let (low, high) = wide.split_at(limbs.as_ref().len().min(6));
    if high.iter().any(|limb| *limb != 0) || !below(low, limbs.as_ref()) {
        return Err(PointError::Coordinate);
    }
    limbs.as_mut().copy_from_slice(low);
    // The kernels' results may lie above the modulus; what leaves here is canonical.
    Ok(F::from_plain(limbs).reduced())
}
