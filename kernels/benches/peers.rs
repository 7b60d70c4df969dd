//! Kernels next to their peers in one run, results compared: `cargo bench -p proofmill-kernels -- [field | msm | classes |
//! small | ntt | threads | validity]`. Ratios count; times on a shared machine vary by tens of percent.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use ark_ec::{CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{BigInt, FftField, Field as _, UniformRand};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{Rng, SeedableRng};
use common::{Mirror, own, plain, same};
use proofmill_kernels::batch::fixed_base;
use proofmill_kernels::check::first_off_curve;
use proofmill_kernels::curve::{Affine, CurveField};
use proofmill_kernels::field::{Bls12381Fq, Bls12381Fr, Bn254Fq, Bn254Fr, Field, PrimeField};
use proofmill_kernels::fp2::{Bls12381Fq2, Bn254Fq2};
use proofmill_kernels::msm::{Bases, Msm, Scratch, msm};
use proofmill_kernels::ntt::Domain;
use proofmill_kernels::subgroup::{SubgroupField, all_in_subgroup};

fn main() {
    let picked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let on = |name: &str| picked.is_empty() || picked.iter().any(|p| p == name);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| {
        if on("field") {
            field::<Bn254Fq>("BN254 Fq");
            field::<Bn254Fr>("BN254 Fr");
            field::<Bls12381Fq>("BLS12-381 Fq");
            field::<Bls12381Fr>("BLS12-381 Fr");
            field::<Bn254Fq2>("BN254 Fq2");
            field::<Bls12381Fq2>("BLS12-381 Fq2");
        }
        if on("msm") {
            sums::<Bn254Fq, ark_bn254::G1Projective>("BN254 G1", 17, (0., 0.));
            sums::<Bn254Fq2, ark_bn254::G2Projective>("BN254 G2", 16, (0., 0.));
            sums::<Bls12381Fq, ark_bls12_381::G1Projective>("BLS12-381 G1", 16, (0., 0.));
            sums::<Bls12381Fq2, ark_bls12_381::G2Projective>("BLS12-381 G2", 15, (0., 0.));
        }
        if on("classes") {
            sums::<Bn254Fq, ark_bn254::G1Projective>("BN254 G1, 13 % 0, 5 % 1", 17, (0.13, 0.05));
            sums::<Bn254Fq, ark_bn254::G1Projective>("BN254 G1, 58 % 0, 42 % 1", 17, (0.58, 0.42));
        }
        if on("small") {
            for log in [10, 11, 12, 13] {
                sums::<Bn254Fq, ark_bn254::G1Projective>("BN254 G1", log, (0., 0.));
            }
            sums::<Bn254Fq2, ark_bn254::G2Projective>("BN254 G2", 12, (0., 0.));
        }
        if on("ntt") {
            for log in [13, 17] {
                transforms::<Bn254Fr>("BN254 Fr", log);
                transforms::<Bls12381Fr>("BLS12-381 Fr", log);
            }
        }
        if on("validity") {
            validity::<Bn254Fq2, ark_bn254::G2Projective>("BN254 G2", 75_550);
            validity::<Bls12381Fq, ark_bls12_381::G1Projective>("BLS12-381 G1", 75_550);
            validity::<Bls12381Fq2, ark_bls12_381::G2Projective>("BLS12-381 G2", 75_550);
        }
    });
    if on("threads") {
        threads();
    }
}

/// Best of `reps`, in seconds, printed.
fn time<R>(name: &str, reps: usize, mut f: impl FnMut() -> R) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..reps {
        let start = Instant::now();
        black_box(f());
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("  {name:<52} {:>10.4} ms", best * 1e3);
    best
}

fn ratio(what: &str, peer: f64, own: f64) {
    println!("  {what:<52} {:>10.2} x", peer / own);
}

fn field<F: Mirror>(name: &str) {
    println!("{name}");
    let mut rng = ark_std::rand::rngs::StdRng::seed_from_u64(1);
    let theirs: Vec<F::Ark> = (0..64).map(|_| F::Ark::rand(&mut rng)).collect();
    // The hot loops' type; this machine must have BMI2 and ADX, else it is the portable one.
    let fast: Vec<F::Adx> = theirs.iter().map(|x| bytemuck::cast(F::from_ark(x))).collect();
    let portable: Vec<F::Portable> = theirs.iter().map(|x| bytemuck::cast(F::from_ark(x))).collect();
    let auto: Vec<F> = theirs.iter().map(F::from_ark).collect();
    const ROUNDS: usize = 4000;
    fn products<T: Copy>(v: &[T], op: impl Fn(&T, &T) -> T) -> Vec<T> {
        let mut x = v.to_vec();
        for _ in 0..ROUNDS {
            for (x, y) in x.iter_mut().zip(v) {
                *x = op(x, y);
            }
        }
        x
    }
    let per = |t: f64| t * 1e9 / (64 * ROUNDS) as f64;
    let ark = time("ark product", 5, || products(&theirs, |a, b| *a * b));
    let own = time("own product", 5, || products(&fast, Field::mul));
    println!("  {:<52} {:>10.1} ns", "own product each", per(own));
    ratio("product: ark / own", ark, own);
    ratio("product: ark / portable", ark, time("portable product", 5, || products(&portable, Field::mul)));
    ratio("product: ark / own, single operations", ark, time("single product", 5, || products(&auto, Field::mul)));
    let ark = time("ark square", 5, || products(&theirs, |a, _| a.square()));
    ratio("square: ark / own", ark, time("own square", 5, || products(&fast, |a, _| a.sqr())));
    let ark = time("ark sum", 5, || products(&theirs, |a, b| *a + b));
    ratio("sum: ark / own", ark, time("own sum", 5, || products(&fast, Field::add)));
    let ark = time("ark inverse", 50, || theirs[0].inverse());
    ratio("inverse: ark / own", ark, time("own inverse", 50, || fast[0].inv()));
}

/// Distinct points, cheaply.
fn points<G: CurveGroup>(n: usize) -> Vec<G::Affine> {
    let mut rng = ark_std::rand::rngs::StdRng::seed_from_u64(2);
    let step = G::rand(&mut rng);
    let mut p = G::rand(&mut rng);
    let walk: Vec<G> = (0..n)
        .map(|_| {
            p += step;
            p
        })
        .collect();
    G::normalize_batch(&walk)
}

fn scalars<S: ark_ff::PrimeField>(n: usize, (zeros, ones): (f64, f64)) -> Vec<S> {
    let mut rng = ark_std::rand::rngs::StdRng::seed_from_u64(3);
    (0..n)
        .map(|_| match rng.r#gen::<f64>() {
            t if t < zeros => S::zero(),
            t if t < zeros + ones => S::one(),
            _ => S::rand(&mut rng),
        })
        .collect()
}

fn sums<F: Mirror + CurveField, G>(name: &str, log: u32, class: (f64, f64))
where
    G: CurveGroup<BaseField = F::Ark, ScalarField: ark_ff::PrimeField<BigInt = BigInt<4>>>
        + VariableBaseMSM
        + PrimeGroup,
{
    println!("MSM {name}, 2^{log}");
    let bases = points::<G>(1 << log);
    let scalars = scalars::<G::ScalarField>(1 << log, class);
    let own_points: Vec<Affine<F>> = bases.iter().map(own::<F, _>).collect();
    let limbs = plain(&scalars);
    let want = G::msm_unchecked(&bases, &scalars);
    let bases_of = Bases { points: &own_points, wires: None };
    assert!(same(&msm(bases_of, &limbs, 255), &want));
    let ark = time("ark", 2, || G::msm_unchecked(&bases, &scalars));
    let job = Msm::new(bases_of, &limbs, 255);
    let mut scratch = Scratch::default();
    let mut longest = 0f64;
    let own = time("own", 3, || {
        let job = Msm::new(bases_of, &limbs, 255);
        let parts: Vec<_> = (0..job.tasks())
            .map(|task| {
                let start = Instant::now();
                let part = job.run(task, &mut scratch);
                longest = longest.max(start.elapsed().as_secs_f64());
                part
            })
            .collect();
        job.combine(&parts)
    });
    println!("  {:<52} {:>10.4} ms", format!("{} tasks, the longest", job.tasks()), longest * 1e3);
    ratio("ark / own", ark, own);
}

fn transforms<F: Mirror + PrimeField>(name: &str, log: u32)
where
    F::Ark: ark_ff::PrimeField + FftField,
{
    println!("NTT {name}, 2^{log}");
    let mut rng = ark_std::rand::rngs::StdRng::seed_from_u64(4);
    let v: Vec<F::Ark> = (0..1usize << log).map(|_| F::Ark::rand(&mut rng)).collect();
    let domain = Radix2EvaluationDomain::<F::Ark>::new(1 << log).unwrap();
    let own = Domain::new(log, F::from_ark(&domain.group_gen()));
    let mut x: Vec<F> = v.iter().map(F::from_ark).collect();
    let mut y = v.clone();
    let ark = time("ark (with bit reversal)", 5, || domain.fft_in_place(&mut y));
    ratio("ark / dif", ark, time("own dif", 5, || own.dif_serial(&mut x)));
    ratio("ark / dif_inverse", ark, time("own dif_inverse", 5, || own.dif_inverse_serial(&mut x)));
    ratio("ark / dit", ark, time("own dit", 5, || own.dit_serial(&mut x)));
}

fn validity<
    F: Mirror + SubgroupField,
    G: CurveGroup<BaseField = F::Ark, ScalarField: ark_ff::PrimeField<BigInt = BigInt<4>>>,
>(
    name: &str,
    n: usize,
) {
    println!("{name}, {n} points");
    let bases = points::<G>(n);
    let own_points: Vec<Affine<F>> = bases.iter().map(own::<F, _>).collect();
    let scalars = plain(&scalars::<G::ScalarField>(n, (0., 0.)));
    time("on the curve", 2, || assert_eq!(first_off_curve(&own_points), None));
    let all = time("in the subgroup", 2, || assert!(all_in_subgroup(&own_points, &[7; 32])));
    let few = time("in the subgroup, 200 of them one by one", 2, || own_points[..200].iter().all(F::contains));
    ratio("one by one / together", few * n as f64 / 200., all);
    time("fixed-base multiples", 1, || fixed_base(&own_points[0], &scalars));
}

/// The same work on one thread and on two.
fn threads() {
    let pools = [1, 2].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let bases: Vec<Affine<Bn254Fq>> = points::<ark_bn254::G1Projective>(1 << 17).iter().map(own).collect();
    let limbs = plain(&scalars::<ark_bn254::Fr>(1 << 17, (0., 0.)));
    println!("BN254 2^17 on one thread and on two");
    let [one, two] = pools
        .each_ref()
        .map(|pool| pool.install(|| time("MSM G1", 4, || msm(Bases { points: &bases, wires: None }, &limbs, 254))));
    ratio("MSM: one / two", one, two);
    let domain = Domain::new(17, Bn254Fr::from_ark(&ark_bn254::Fr::get_root_of_unity(1 << 17).unwrap()));
    let mut v: Vec<Bn254Fr> = limbs.iter().map(|s| Bn254Fr::from_plain(*s)).collect();
    let [one, two] = pools.each_ref().map(|pool| {
        pool.install(|| {
            time("NTT there and back", 6, || {
                domain.dif_inverse(&mut v);
                domain.dit(&mut v);
            })
        })
    });
    ratio("NTT: one / two", one, two);
}
