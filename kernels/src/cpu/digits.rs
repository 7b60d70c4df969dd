//! Scalars as signed digits.

use super::curve::CurveField;
use super::limbs::sub_limbs;

/// Digits fit 16 bits, also negated.
pub const MAX_WINDOW: u32 = 15;

/// Windows of equal width; digits are in [-2^(window - 1), 2^(window - 1)].
#[derive(Clone, Copy, Debug)]
pub struct Recoding {
    pub window: u32,
    pub windows: u32,
    /// Half of every window but the top one. Added to a scalar, it makes each signed digit `bits - half`, without
    /// carries from window to window.
    offset: [u64; 5],
}

impl Recoding {
    /// For scalars below 2^`bits`: the top window must not need a carry out.
    pub fn new(window: u32, bits: u32) -> Self {
        let windows = (bits + 1).div_ceil(window);
        let mut offset = [0u64; 5];
        for w in 1..windows {
            let bit = w * window - 1;
            offset[bit as usize / 64] |= 1 << (bit % 64);
        }
        Self { window, windows, offset }
    }

    /// The digits, from the lowest.
    #[inline(always)]
    pub fn digits(&self, scalar: &[u64; 4]) -> impl Iterator<Item = i16> + use<> {
        let Self { window, windows, .. } = *self;
        let shifted = self.shift(scalar);
        (0..windows).map(move |w| {
            let half = if w + 1 == windows { 0 } else { 1i16 << (window - 1) };
            bits(&shifted, w * window, window) as i16 - half
        })
    }

    #[inline(always)]
    fn shift(&self, scalar: &[u64; 4]) -> [u64; 5] {
        let mut r = self.offset;
        let mut carry = 0;
        for i in 0..4 {
            let t = scalar[i] as u128 + r[i] as u128 + carry as u128;
            r[i] = t as u64;
            carry = (t >> 64) as u64;
        }
        r[4] += carry;
        r
    }
}

/// The scalar or, when that is shorter, its negative modulo r, and whether it was negated.
#[inline(always)]
pub fn shorter<F: CurveField>(s: &[u64; 4]) -> ([u64; 4], bool) {
    let (negative, borrow) = sub_limbs(&F::ORDER, s);
    // Comparing the top limbs is enough: at their tie either form is about as long.
    if !borrow && negative[3] < s[3] { (negative, true) } else { (*s, false) }
}

/// `width` bits from bit `at` on.
#[inline(always)]
fn bits(s: &[u64; 5], at: u32, width: u32) -> u32 {
    let (i, b) = (at as usize / 64, at % 64);
    if i > 4 {
        return 0;
    }
    let mut v = s[i] >> b;
    if b + width > 64 && i < 4 {
        v |= s[i + 1] << (64 - b);
    }
    (v & ((1 << width) - 1)) as u32
}
