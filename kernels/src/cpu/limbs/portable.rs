//! Limbs in plain Rust, for processors without BMI2 and ADX, and for constants.

use super::{LimbOps, Wide, add_limbs, sub_limbs};

/// Plain Rust on any processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable;

impl<const N: usize> LimbOps<N> for Portable {
    type Adx = Self;
    type Portable = Self;

    #[inline(always)]
    fn mul(a: &[u64; N], b: &[u64; N], table: &'static [u64; 8]) -> [u64; N] {
        mul(a, b, table)
    }

    #[inline(always)]
    fn sqr(a: &[u64; N], table: &'static [u64; 8]) -> [u64; N] {
        mul(a, a, table)
    }

    #[inline(always)]
    fn add(a: &[u64; N], b: &[u64; N], bound: &'static [u64; N]) -> [u64; N] {
        let s = add_limbs(a, b);
        let (d, borrow) = sub_limbs(&s, bound);
        if borrow { s } else { d }
    }

    #[inline(always)]
    fn sub(a: &[u64; N], b: &[u64; N], bound: &'static [u64; N]) -> [u64; N] {
        let (d, borrow) = sub_limbs(a, b);
        let mask = (borrow as u64).wrapping_neg();
        add_limbs(&d, &core::array::from_fn(|i| bound[i] & mask))
    }

    #[inline(always)]
    fn wide(a: &[u64; N], b: &[u64; N]) -> Wide<N> {
        let mut lo = [0; N];
        let mut t = [0; N];
        for i in 0..N {
            let mut carry = 0;
            for j in 0..N {
                (t[j], carry) = mac(t[j], a[j], b[i], carry);
            }
            lo[i] = t[0];
            t.copy_within(1.., 0);
            t[N - 1] = carry;
        }
        Wide { lo, hi: t }
    }

    #[inline(always)]
    fn redc(t: &Wide<N>, table: &'static [u64; 8]) -> [u64; N] {
        let mut lo = t.lo;
        for _ in 0..N {
            let m = lo[0].wrapping_mul(table[7]);
            let (_, mut carry) = mac(lo[0], m, table[0], 0);
            for j in 1..N {
                (lo[j - 1], carry) = mac(lo[j], m, table[j], carry);
            }
            lo[N - 1] = carry;
        }
        add_limbs(&lo, &t.hi)
    }
}

/// Montgomery's product, row by row (coarsely integrated operand scanning; Koç, Acar, Kaliski 1996).
pub const fn mul<const N: usize>(a: &[u64; N], b: &[u64; N], table: &[u64; 8]) -> [u64; N] {
    let mut t = [0; N];
    let mut i = 0;
    while i < N {
        let mut carry = 0;
        let mut j = 0;
        while j < N {
            (t[j], carry) = mac(t[j], a[j], b[i], carry);
            j += 1;
        }
        let top = carry;
        let m = t[0].wrapping_mul(table[7]);
        (_, carry) = mac(t[0], m, table[0], 0);
        j = 1;
        while j < N {
            (t[j - 1], carry) = mac(t[j], m, table[j], carry);
            j += 1;
        }
        // No carry out: the row's sum is below (a + p) 2^64.
        t[N - 1] = top.wrapping_add(carry);
        i += 1;
    }
    t
}

/// t + a b + carry as (low, high).
#[inline(always)]
const fn mac(t: u64, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let x = t as u128 + a as u128 * b as u128 + carry as u128;
    (x as u64, (x >> 64) as u64)
}
