//! The two curves, and what distinguishes them: fields, roots of unity, names. [`Suite`] is the same at compile time.

use ark_ec::pairing::Pairing;
use ark_ec::{AffineRepr, short_weierstrass};
use ark_ff::{BigInt, BigInteger, FftField, Field as _, Fp2, PrimeField as ArkPrimeField};
use proofmill_kernels::curve::Affine;
use proofmill_kernels::field::{Bls12381Fq, Bls12381Fr, Bn254Fq, Bn254Fr, PrimeField};
use proofmill_kernels::fp2::{Bls12381Fq2, Bn254Fq2};
use proofmill_kernels::subgroup::SubgroupField;

use serde::{Deserialize, Serialize};

/// A pairing-friendly curve that proofs are made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Curve {
    /// BN254, called `bn128` by circom and snarkjs and `alt_bn128` by Ethereum.
    #[serde(rename = "bn128")]
    Bn254,
    /// BLS12-381.
    #[serde(rename = "bls12381")]
    Bls12381,
}

/// The QAP reduction that a key was made for. It fixes the roots of unity and the basis of H; it is a property of the
/// **key**, never of the curve: the two families agree on tiny domains, so a mix-up shows only from n = 64 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// circom and snarkjs: root 5^t on both curves, H in the odd Lagrange basis of the 2n-domain.
    Circom,
    /// bellperson: root 7^t, H in powers of tau.
    Bellperson,
}

/// A curve as a set of types: what generic code over both curves is written against.
pub trait Suite: Copy + Send + Sync + 'static {
    /// Which curve this is.
    const CURVE: Curve;
    /// s in r - 1 = 2^s t, t odd.
    const TWO_ADICITY: u32;
    /// The base field; coordinates of G1.
    type Fq: PrimeField + SubgroupField;
    /// The scalar field.
    type Fr: PrimeField<Limbs = [u64; 4]>;
    /// The quadratic extension; coordinates of G2.
    type Fq2: SubgroupField;
    /// The same curve in arkworks, for pairings and cold paths.
    type Ark: Pairing;

    /// A primitive 2^`log`-th root of unity of the reduction's family, in Montgomery form; `log` is at most
    /// [`Suite::TWO_ADICITY`] (more gives the root of that level).
    fn root_of_unity(reduction: Reduction, log: u32) -> Self::Fr;

    /// The parts c0, c1 of c0 + c1 u.
    fn fq2_parts(element: &Self::Fq2) -> [Self::Fq; 2];
    /// The element c0 + c1 u.
    fn fq2(parts: [Self::Fq; 2]) -> Self::Fq2;

    /// A G1 point for arkworks. The point must be on the curve and canonical.
    fn g1_to_ark(point: &Affine<Self::Fq>) -> <Self::Ark as Pairing>::G1Affine;
    /// A G1 point of arkworks.
    fn g1_from_ark(point: &<Self::Ark as Pairing>::G1Affine) -> Affine<Self::Fq>;
    /// A G2 point for arkworks. The point must be on the curve and canonical.
    fn g2_to_ark(point: &Affine<Self::Fq2>) -> <Self::Ark as Pairing>::G2Affine;
    /// A G2 point of arkworks.
    fn g2_from_ark(point: &<Self::Ark as Pairing>::G2Affine) -> Affine<Self::Fq2>;
    /// A scalar for arkworks.
    fn fr_to_ark(scalar: &Self::Fr) -> <Self::Ark as Pairing>::ScalarField;
    /// A scalar of arkworks.
    fn fr_from_ark(scalar: &<Self::Ark as Pairing>::ScalarField) -> Self::Fr;
}

/// The suite of [`Curve::Bn254`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bn254;

/// The suite of [`Curve::Bls12381`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bls12381;

macro_rules! suite {
    ($suite:ident, $curve:ident, $ark:ident, $pairing:ident, $fq:ident, $fr:ident, $fq2:ident) => {
        impl Suite for $suite {
            const CURVE: Curve = Curve::$curve;
            const TWO_ADICITY: u32 = <$ark::Fr as FftField>::TWO_ADICITY;
            type Fq = $fq;
            type Fr = $fr;
            type Fq2 = $fq2;
            type Ark = $ark::$pairing;

            fn root_of_unity(reduction: Reduction, log: u32) -> $fr {
                // r - 1, shifted down by at most its two-adicity, is exact.
                let mut exponent = $ark::Fr::MODULUS;
                exponent.sub_with_borrow(&BigInt::from(1u64));
                exponent >>= log.min(Self::TWO_ADICITY);
                Self::fr_from_ark(&$ark::Fr::from(reduction.generator()).pow(exponent))
            }

            fn fq2_parts(element: &$fq2) -> [$fq; 2] {
                [element.c0, element.c1]
            }

            fn fq2([c0, c1]: [$fq; 2]) -> $fq2 {
                $fq2 { c0, c1 }
            }

            fn g1_to_ark(point: &Affine<$fq>) -> $ark::G1Affine {
                if point.is_infinity() {
                    return $ark::G1Affine::identity();
                }
                let element = |e: &$fq| $ark::Fq::new_unchecked(BigInt::new(e.montgomery()));
                short_weierstrass::Affine::new_unchecked(element(&point.x), element(&point.y))
            }

            fn g1_from_ark(point: &$ark::G1Affine) -> Affine<$fq> {
                if AffineRepr::is_zero(point) {
                    return Affine::INFINITY;
                }
                let element = |e: &$ark::Fq| $fq::from_montgomery(e.0.0);
                Affine { x: element(&point.x), y: element(&point.y) }
            }

            fn g2_to_ark(point: &Affine<$fq2>) -> $ark::G2Affine {
                if point.is_infinity() {
                    return $ark::G2Affine::identity();
                }
                let part = |e: &$fq| $ark::Fq::new_unchecked(BigInt::new(e.montgomery()));
                let element = |e: &$fq2| Fp2::new(part(&e.c0), part(&e.c1));
                short_weierstrass::Affine::new_unchecked(element(&point.x), element(&point.y))
            }

            fn g2_from_ark(point: &$ark::G2Affine) -> Affine<$fq2> {
                if AffineRepr::is_zero(point) {
                    return Affine::INFINITY;
                }
                let part = |e: &$ark::Fq| $fq::from_montgomery(e.0.0);
                let element = |e: &$ark::Fq2| $fq2 { c0: part(&e.c0), c1: part(&e.c1) };
                Affine { x: element(&point.x), y: element(&point.y) }
            }

            fn fr_to_ark(scalar: &$fr) -> $ark::Fr {
                $ark::Fr::new_unchecked(BigInt::new(scalar.montgomery()))
            }

            fn fr_from_ark(scalar: &$ark::Fr) -> $fr {
                $fr::from_montgomery(scalar.0.0)
            }
        }
    };
}
suite!(Bn254, Bn254, ark_bn254, Bn254, Bn254Fq, Bn254Fr, Bn254Fq2);
suite!(Bls12381, Bls12381, ark_bls12_381, Bls12_381, Bls12381Fq, Bls12381Fr, Bls12381Fq2);

impl Reduction {
    /// The quadratic non-residue whose powers are the roots of unity.
    const fn generator(self) -> u64 {
        match self {
            Self::Circom => 5,
            Self::Bellperson => 7,
        }
    }
}

impl Curve {
    /// The name that snarkjs writes into its files.
    pub const fn snarkjs_name(self) -> &'static str {
        match self {
            Self::Bn254 => "bn128",
            Self::Bls12381 => "bls12381",
        }
    }

    /// The curve of a name as snarkjs reads it: case, dashes and underscores do not matter.
    pub fn from_snarkjs_name(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        match plain.to_ascii_lowercase().as_str() {
            "bn128" | "bn254" | "altbn128" => Some(Self::Bn254),
            "bls12381" => Some(Self::Bls12381),
            _ => None,
        }
    }

    /// Bytes of a base field element: 32 or 48.
    pub const fn base_field_bytes(self) -> usize {
        match self {
            Self::Bn254 => 32,
            Self::Bls12381 => 48,
        }
    }

    /// The scalar field's modulus r, little-endian limbs.
    pub fn scalar_modulus(self) -> [u64; 4] {
        match self {
            Self::Bn254 => ark_bn254::Fr::MODULUS.0,
            Self::Bls12381 => ark_bls12_381::Fr::MODULUS.0,
        }
    }

    /// The base field's modulus q, little-endian bytes.
    pub fn base_modulus_bytes(self) -> Vec<u8> {
        match self {
            Self::Bn254 => ark_bn254::Fq::MODULUS.to_bytes_le(),
            Self::Bls12381 => ark_bls12_381::Fq::MODULUS.to_bytes_le(),
        }
    }

    /// The scalar field's modulus r, little-endian bytes.
    pub fn scalar_modulus_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.scalar_modulus()) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// The curve whose scalar field has this modulus (little-endian bytes).
    pub fn from_scalar_modulus(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.scalar_modulus_bytes() == bytes)
    }

    /// The curve whose base field has this modulus (little-endian bytes).
    pub fn from_base_modulus(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.base_modulus_bytes() == bytes)
    }

    /// s in r - 1 = 2^s t, t odd.
    pub const fn two_adicity(self) -> u32 {
        match self {
            Self::Bn254 => Bn254::TWO_ADICITY,
            Self::Bls12381 => Bls12381::TWO_ADICITY,
        }
    }

    /// Both curves.
    pub const ALL: [Self; 2] = [Self::Bn254, Self::Bls12381];
}

impl std::fmt::Display for Curve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bn254 => "BN254",
            Self::Bls12381 => "BLS12-381",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// snarkjs's root of the highest level on BLS12-381 (circom.md section 2): 5^t, which no Rust library uses.
    #[test]
    fn circom_root_of_unity_is_snarkjs_own() {
        let root = Bls12381::fr_to_ark(&Bls12381::root_of_unity(Reduction::Circom, 32));
        assert_eq!(
            root.into_bigint().to_string(),
            "937917089079007706106976984802249742464848817460758522850752807661925904159"
        );
        let ark = Bls12381::fr_to_ark(&Bls12381::root_of_unity(Reduction::Bellperson, 32));
        assert_eq!(ark, <ark_bls12_381::Fr as FftField>::TWO_ADIC_ROOT_OF_UNITY);
        let bn = Bn254::fr_to_ark(&Bn254::root_of_unity(Reduction::Circom, 28));
        assert_eq!(bn, <ark_bn254::Fr as FftField>::TWO_ADIC_ROOT_OF_UNITY);
    }

    #[test]
    fn roots_of_unity_are_primitive() {
        for log in [1u32, 6, 13] {
            let root = Bn254::fr_to_ark(&Bn254::root_of_unity(Reduction::Circom, log));
            assert_eq!(root.pow([1u64 << log]), ark_bn254::Fr::from(1u64));
            assert_eq!(root.pow([1u64 << (log - 1)]), -ark_bn254::Fr::from(1u64));
        }
    }

    #[test]
    fn points_survive_the_way_to_arkworks_and_back() {
        let g1 = ark_bls12_381::G1Affine::generator();
        assert_eq!(Bls12381::g1_to_ark(&Bls12381::g1_from_ark(&g1)), g1);
        let g2 = ark_bls12_381::G2Affine::generator();
        assert_eq!(Bls12381::g2_to_ark(&Bls12381::g2_from_ark(&g2)), g2);
        let zero = ark_bn254::G2Affine::identity();
        assert_eq!(Bn254::g2_to_ark(&Bn254::g2_from_ark(&zero)), zero);
    }

    #[test]
    fn names_and_moduli_find_their_curve() {
        for curve in Curve::ALL {
            assert_eq!(Curve::from_snarkjs_name(curve.snarkjs_name()), Some(curve));
            assert_eq!(Curve::from_scalar_modulus(&curve.scalar_modulus_bytes()), Some(curve));
            assert_eq!(Curve::from_base_modulus(&curve.base_modulus_bytes()), Some(curve));
            assert_eq!(curve.base_modulus_bytes().len(), curve.base_field_bytes());
        }
        assert_eq!(Curve::from_snarkjs_name("BLS12-381"), Some(Curve::Bls12381));
        assert_eq!(Curve::from_snarkjs_name("bls12377"), None);
    }
}
