//! Six limbs in assembly.

use core::arch::asm;

use super::adx::{Adx, carry_into, load_and_clear, mac, multiple};
use super::{LimbOps, Wide};

impl LimbOps<6> for Adx {
    type Adx = Self;
    type Portable = Self;

    #[inline(always)]
    fn mul(a: &[u64; 6], b: &[u64; 6], table: &'static [u64; 8]) -> [u64; 6] {
        mul6(a, b, table)
    }

    #[inline(always)]
    fn sqr(a: &[u64; 6], table: &'static [u64; 8]) -> [u64; 6] {
        mul6(a, a, table)
    }

    #[inline(always)]
    fn add(a: &[u64; 6], b: &[u64; 6], bound: &'static [u64; 6]) -> [u64; 6] {
        add6(a, b, bound)
    }

    #[inline(always)]
    fn sub(a: &[u64; 6], b: &[u64; 6], bound: &'static [u64; 6]) -> [u64; 6] {
        sub6(a, b, bound)
    }

    #[inline(always)]
    fn wide(a: &[u64; 6], b: &[u64; 6]) -> Wide<6> {
        wide6(a, b)
    }

    #[inline(always)]
    fn redc(t: &Wide<6>, table: &'static [u64; 8]) -> [u64; 6] {
        redc6(t, table)
    }
}

/// One row of the product: t += a * b[off / 8], the carry into t6 (cleared first).
macro_rules! mul_row6 {
    ($off:literal, $t0:literal, $t1:literal, $t2:literal, $t3:literal, $t4:literal, $t5:literal, $t6:literal) => {
        concat!(
            load_and_clear!($off, $t6),
            mac!("a", "0", $t0, $t1),
            mac!("a", "8", $t1, $t2),
            mac!("a", "16", $t2, $t3),
            mac!("a", "24", $t3, $t4),
            mac!("a", "32", $t4, $t5),
            mac!("a", "40", $t5, $t6),
            carry_into!($t6)
        )
    };
}

/// One Montgomery step: t = (t + m p) / 2^64; t0 ends as zero.
macro_rules! red_row6 {
    ($t0:literal, $t1:literal, $t2:literal, $t3:literal, $t4:literal, $t5:literal, $t6:literal) => {
        concat!(
            multiple!($t0),
            mac!("p", "0", $t0, $t1),
            mac!("p", "8", $t1, $t2),
            mac!("p", "16", $t2, $t3),
            mac!("p", "24", $t3, $t4),
            mac!("p", "32", $t4, $t5),
            mac!("p", "40", $t5, $t6),
            carry_into!($t6)
        )
    };
}

/// a b / 2^384 mod p, interleaved row by row.
#[inline(always)]
fn mul6(a: &[u64; 6], b: &[u64; 6], table: &'static [u64; 8]) -> [u64; 6] {
    let mut r = [0u64; 6];
    // SAFETY: reads the operands and the table through pointers to arrays of these sizes; writes only registers.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{b}]",
            "mulx {t1}, {t0}, qword ptr [{a}]",
            "mulx {t2}, {lo}, qword ptr [{a} + 8]",
            "add {t1}, {lo}",
            "mulx {t3}, {lo}, qword ptr [{a} + 16]",
            "adc {t2}, {lo}",
            "mulx {t4}, {lo}, qword ptr [{a} + 24]",
            "adc {t3}, {lo}",
            "mulx {t5}, {lo}, qword ptr [{a} + 32]",
            "adc {t4}, {lo}",
            "mulx {t6}, {lo}, qword ptr [{a} + 40]",
            "adc {t5}, {lo}",
            "adc {t6}, 0",
            red_row6!("t0", "t1", "t2", "t3", "t4", "t5", "t6"),
            mul_row6!("8", "t1", "t2", "t3", "t4", "t5", "t6", "t0"),
            red_row6!("t1", "t2", "t3", "t4", "t5", "t6", "t0"),
            mul_row6!("16", "t2", "t3", "t4", "t5", "t6", "t0", "t1"),
            red_row6!("t2", "t3", "t4", "t5", "t6", "t0", "t1"),
            mul_row6!("24", "t3", "t4", "t5", "t6", "t0", "t1", "t2"),
            red_row6!("t3", "t4", "t5", "t6", "t0", "t1", "t2"),
            mul_row6!("32", "t4", "t5", "t6", "t0", "t1", "t2", "t3"),
            red_row6!("t4", "t5", "t6", "t0", "t1", "t2", "t3"),
            mul_row6!("40", "t5", "t6", "t0", "t1", "t2", "t3", "t4"),
            red_row6!("t5", "t6", "t0", "t1", "t2", "t3", "t4"),
            a = in(reg) a.as_ptr(),
            b = in(reg) b.as_ptr(),
            p = in(reg) table.as_ptr(),
            t0 = out(reg) r[1],
            t1 = out(reg) r[2],
            t2 = out(reg) r[3],
            t3 = out(reg) r[4],
            t4 = out(reg) r[5],
            t5 = out(reg) _,
            t6 = out(reg) r[0],
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(pure, readonly, nostack)
        );
    }
    r
}

/// Stores a finished limb of the product.
macro_rules! store {
    ($off:literal, $t:literal) => {
        concat!("mov qword ptr [{r} + ", $off, "], {", $t, "}\n")
    };
}

/// The 12-limb product. Its lower half leaves the registers row by row: there are not enough for all.
#[inline(always)]
fn wide6(a: &[u64; 6], b: &[u64; 6]) -> Wide<6> {
    let mut lo = [0u64; 6];
    let mut hi = [0u64; 6];
    // SAFETY: reads a and b through pointers to six limbs, writes six limbs to `lo` and registers.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{b}]",
            "mulx {t1}, {t0}, qword ptr [{a}]",
            "mulx {t2}, {lo}, qword ptr [{a} + 8]",
            "add {t1}, {lo}",
            "mulx {t3}, {lo}, qword ptr [{a} + 16]",
            "adc {t2}, {lo}",
            "mulx {t4}, {lo}, qword ptr [{a} + 24]",
            "adc {t3}, {lo}",
            "mulx {t5}, {lo}, qword ptr [{a} + 32]",
            "adc {t4}, {lo}",
            "mulx {t6}, {lo}, qword ptr [{a} + 40]",
            "adc {t5}, {lo}",
            "adc {t6}, 0",
            store!("0", "t0"),
            mul_row6!("8", "t1", "t2", "t3", "t4", "t5", "t6", "t0"),
            store!("8", "t1"),
            mul_row6!("16", "t2", "t3", "t4", "t5", "t6", "t0", "t1"),
            store!("16", "t2"),
            mul_row6!("24", "t3", "t4", "t5", "t6", "t0", "t1", "t2"),
            store!("24", "t3"),
            mul_row6!("32", "t4", "t5", "t6", "t0", "t1", "t2", "t3"),
            store!("32", "t4"),
            mul_row6!("40", "t5", "t6", "t0", "t1", "t2", "t3", "t4"),
            store!("40", "t5"),
            a = in(reg) a.as_ptr(),
            b = in(reg) b.as_ptr(),
            r = in(reg) lo.as_mut_ptr(),
            t0 = out(reg) hi[1],
            t1 = out(reg) hi[2],
            t2 = out(reg) hi[3],
            t3 = out(reg) hi[4],
            t4 = out(reg) hi[5],
            t5 = out(reg) _,
            t6 = out(reg) hi[0],
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(nostack)
        );
    }
    Wide { lo, hi }
}

/// One Montgomery step on the lower half of a wide product, kept in six registers: t0 becomes the top.
macro_rules! low_row6 {
    ($t0:literal, $t1:literal, $t2:literal, $t3:literal, $t4:literal, $t5:literal) => {
        concat!(
            multiple!($t0),
            mac!("p", "0", $t0, $t1),
            mac!("p", "8", $t1, $t2),
            mac!("p", "16", $t2, $t3),
            mac!("p", "24", $t3, $t4),
            mac!("p", "32", $t4, $t5),
            mac!("p", "40", $t5, $t0),
            carry_into!($t0)
        )
    };
}

/// t / 2^384 mod p.
#[inline(always)]
fn redc6(t: &Wide<6>, table: &'static [u64; 8]) -> [u64; 6] {
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5] = t.lo;
    // SAFETY: reads the upper half and the table through pointers to arrays of these sizes; writes only registers.
    unsafe {
        asm!(
            low_row6!("t0", "t1", "t2", "t3", "t4", "t5"),
            low_row6!("t1", "t2", "t3", "t4", "t5", "t0"),
            low_row6!("t2", "t3", "t4", "t5", "t0", "t1"),
            low_row6!("t3", "t4", "t5", "t0", "t1", "t2"),
            low_row6!("t4", "t5", "t0", "t1", "t2", "t3"),
            low_row6!("t5", "t0", "t1", "t2", "t3", "t4"),
            "add {t0}, qword ptr [{h} + 0]",
            "adc {t1}, qword ptr [{h} + 8]",
            "adc {t2}, qword ptr [{h} + 16]",
            "adc {t3}, qword ptr [{h} + 24]",
            "adc {t4}, qword ptr [{h} + 32]",
            "adc {t5}, qword ptr [{h} + 40]",
            h = in(reg) t.hi.as_ptr(),
            p = in(reg) table.as_ptr(),
            t0 = inout(reg) r0,
            t1 = inout(reg) r1,
            t2 = inout(reg) r2,
            t3 = inout(reg) r3,
            t4 = inout(reg) r4,
            t5 = inout(reg) r5,
            lo = out(reg) _,
            hi = out(reg) _,
            out("rdx") _,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3, r4, r5]
}

static ZERO: [u64; 6] = [0; 6];

/// a + b, minus the bound when that is not negative.
#[inline(always)]
fn add6(a: &[u64; 6], b: &[u64; 6], bound: &'static [u64; 6]) -> [u64; 6] {
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5] = *a;
    // SAFETY: reads b, the bound and zeros through pointers to six limbs each; writes only registers.
    unsafe {
        asm!(
            "add {r0}, qword ptr [{b} + 0]",
            "adc {r1}, qword ptr [{b} + 8]",
            "adc {r2}, qword ptr [{b} + 16]",
            "adc {r3}, qword ptr [{b} + 24]",
            "adc {r4}, qword ptr [{b} + 32]",
            "adc {r5}, qword ptr [{b} + 40]",
            "sub {r0}, qword ptr [{p} + 0]",
            "sbb {r1}, qword ptr [{p} + 8]",
            "sbb {r2}, qword ptr [{p} + 16]",
            "sbb {r3}, qword ptr [{p} + 24]",
            "sbb {r4}, qword ptr [{p} + 32]",
            "sbb {r5}, qword ptr [{p} + 40]",
            "cmovae {p}, {z}",
            "add {r0}, qword ptr [{p} + 0]",
            "adc {r1}, qword ptr [{p} + 8]",
            "adc {r2}, qword ptr [{p} + 16]",
            "adc {r3}, qword ptr [{p} + 24]",
            "adc {r4}, qword ptr [{p} + 32]",
            "adc {r5}, qword ptr [{p} + 40]",
            b = in(reg) b.as_ptr(),
            p = inout(reg) bound.as_ptr() => _,
            z = in(reg) ZERO.as_ptr(),
            r0 = inout(reg) r0,
            r1 = inout(reg) r1,
            r2 = inout(reg) r2,
            r3 = inout(reg) r3,
            r4 = inout(reg) r4,
            r5 = inout(reg) r5,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3, r4, r5]
}

/// a - b, plus the bound when negative.
#[inline(always)]
fn sub6(a: &[u64; 6], b: &[u64; 6], bound: &'static [u64; 6]) -> [u64; 6] {
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5] = *a;
    // SAFETY: reads b, the bound and zeros through pointers to six limbs each; writes only registers.
    unsafe {
        asm!(
            "sub {r0}, qword ptr [{b} + 0]",
            "sbb {r1}, qword ptr [{b} + 8]",
            "sbb {r2}, qword ptr [{b} + 16]",
            "sbb {r3}, qword ptr [{b} + 24]",
            "sbb {r4}, qword ptr [{b} + 32]",
            "sbb {r5}, qword ptr [{b} + 40]",
            "cmovae {p}, {z}",
            "add {r0}, qword ptr [{p} + 0]",
            "adc {r1}, qword ptr [{p} + 8]",
            "adc {r2}, qword ptr [{p} + 16]",
            "adc {r3}, qword ptr [{p} + 24]",
            "adc {r4}, qword ptr [{p} + 32]",
            "adc {r5}, qword ptr [{p} + 40]",
            b = in(reg) b.as_ptr(),
            p = inout(reg) bound.as_ptr() => _,
            z = in(reg) ZERO.as_ptr(),
            r0 = inout(reg) r0,
            r1 = inout(reg) r1,
            r2 = inout(reg) r2,
            r3 = inout(reg) r3,
            r4 = inout(reg) r4,
            r5 = inout(reg) r5,
            options(pure, readonly, nostack)
        );
    }
    [r0, r1, r2, r3, r4, r5]
}
