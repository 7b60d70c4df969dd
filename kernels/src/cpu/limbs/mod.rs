//! Operations on arrays of 4 or 6 limbs, in two backends, and the choice between them.

use core::fmt::Debug;

pub mod portable;

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod adx;
#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod adx4;
#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod adx6;

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
pub use adx::Adx;
#[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
pub use portable::Portable as Adx;

pub use portable::Portable;

/// A product of two `N`-limb numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Wide<const N: usize> {
    pub lo: [u64; N],
    pub hi: [u64; N],
}

/// Arithmetic on `N` limbs. `table` is p, then at index 7 the value of -1/p mod 2^64.
pub trait LimbOps<const N: usize>: Copy + Send + Sync + Debug + 'static {
    /// The backend to use where BMI2 and ADX are present.
    type Adx: LimbOps<N>;
    /// The backend to use elsewhere.
    type Portable: LimbOps<N>;

    /// A representative of a b / R mod p, below a b / R + p. Needs a + p < R; b may be anything.
    fn mul(a: &[u64; N], b: &[u64; N], table: &'static [u64; 8]) -> [u64; N];
    /// a a / R mod p, with the bounds of `mul`.
    fn sqr(a: &[u64; N], table: &'static [u64; 8]) -> [u64; N];
    /// a + b, minus `bound` when that is not negative. a + b < R.
    fn add(a: &[u64; N], b: &[u64; N], bound: &'static [u64; N]) -> [u64; N];
    /// a - b, plus `bound` when negative.
    fn sub(a: &[u64; N], b: &[u64; N], bound: &'static [u64; N]) -> [u64; N];
    /// a b.
    fn wide(a: &[u64; N], b: &[u64; N]) -> Wide<N>;
    /// t / R mod p, at most t / R + p, which must be below R.
    fn redc(t: &Wide<N>, table: &'static [u64; 8]) -> [u64; N];
}

/// Looks at the processor (a cached flag) at each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto;

/// Whether the assembly is compiled in and this processor runs it.
#[inline(always)]
pub fn adx_available() -> bool {
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    {
        std::arch::is_x86_feature_detected!("bmi2") && std::arch::is_x86_feature_detected!("adx")
    }
    #[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
    {
        false
    }
}

/// `Auto` inlines the assembly only: the portable code, many times as long, is called.
macro_rules! auto {
    ($n:literal, $portable:ident) => {
        mod $portable {
            use super::{LimbOps, Portable, Wide};

            #[inline(never)]
            pub fn mul(a: &[u64; $n], b: &[u64; $n], table: &'static [u64; 8]) -> [u64; $n] {
                Portable::mul(a, b, table)
            }
            #[inline(never)]
            pub fn wide(a: &[u64; $n], b: &[u64; $n]) -> Wide<$n> {
                Portable::wide(a, b)
            }
            #[inline(never)]
            pub fn redc(t: &Wide<$n>, table: &'static [u64; 8]) -> [u64; $n] {
                Portable::redc(t, table)
            }
        }

        impl LimbOps<$n> for Auto {
            type Adx = Adx;
            type Portable = Portable;

            #[inline]
            fn mul(a: &[u64; $n], b: &[u64; $n], table: &'static [u64; 8]) -> [u64; $n] {
                if adx_available() { Adx::mul(a, b, table) } else { $portable::mul(a, b, table) }
            }
            #[inline]
            fn sqr(a: &[u64; $n], table: &'static [u64; 8]) -> [u64; $n] {
                if adx_available() { Adx::sqr(a, table) } else { $portable::mul(a, a, table) }
            }
            #[inline]
            fn add(a: &[u64; $n], b: &[u64; $n], bound: &'static [u64; $n]) -> [u64; $n] {
                Portable::add(a, b, bound)
            }
            #[inline]
            fn sub(a: &[u64; $n], b: &[u64; $n], bound: &'static [u64; $n]) -> [u64; $n] {
                Portable::sub(a, b, bound)
            }
            #[inline]
            fn wide(a: &[u64; $n], b: &[u64; $n]) -> Wide<$n> {
                if adx_available() { Adx::wide(a, b) } else { $portable::wide(a, b) }
            }
            #[inline]
            fn redc(t: &Wide<$n>, table: &'static [u64; 8]) -> [u64; $n] {
                if adx_available() { Adx::redc(t, table) } else { $portable::redc(t, table) }
            }
        }
    };
}
auto!(4, portable4);
auto!(6, portable6);

pub const fn sub_limbs<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], bool) {
    let mut r = [0; N];
    let mut borrow = false;
    let mut i = 0;
    while i < N {
        let (d, b1) = a[i].overflowing_sub(b[i]);
        let (d, b2) = d.overflowing_sub(borrow as u64);
        r[i] = d;
        borrow = b1 | b2;
        i += 1;
    }
    (r, borrow)
}

/// The sum modulo 2^(64 N).
pub const fn add_limbs<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
    let mut r = [0; N];
    let mut carry = false;
    let mut i = 0;
    while i < N {
        let (d, c1) = a[i].overflowing_add(b[i]);
        let (d, c2) = d.overflowing_add(carry as u64);
        r[i] = d;
        carry = c1 | c2;
        i += 1;
    }
    r
}

/// -1/p mod 2^64, by Newton's iteration.
const fn neg_inv(p0: u64) -> u64 {
    let mut x = 1u64;
    let mut i = 0;
    while i < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(p0.wrapping_mul(x)));
        i += 1;
    }
    x.wrapping_neg()
}

/// The table that `LimbOps` reads, for the modulus p.
pub const fn table<const N: usize>(p: [u64; N]) -> [u64; 8] {
    let mut t = [0; 8];
    let mut i = 0;
    while i < N {
        t[i] = p[i];
        i += 1;
    }
    t[7] = neg_inv(p[0]);
    t
}

/// 2^k mod p.
pub const fn pow2<const N: usize>(p: &[u64; N], k: usize) -> [u64; N] {
    let mut x = [0; N];
    x[0] = 1;
    let mut i = 0;
    while i < k {
        let top = x[N - 1] >> 63;
        x = add_limbs(&x, &x);
        let (d, borrow) = sub_limbs(&x, p);
        if top == 1 || !borrow {
            x = d;
        }
        i += 1;
    }
    x
}
