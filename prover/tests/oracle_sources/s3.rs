//! From S3.

use crate::moto::Moto;
use crate::place::{Ran, finish};
use crate::{Place, assert_proved, chain, digest, pinned, write};

fn run(place: &Place, endpoint: &str) -> Ran {
    let mut command = place.command(&["run", "-f", "manifest.yaml"]);
    command
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "verysecret")
        .env("AWS_REGION", "us-east-1");
    finish(command)
}

#[test]
fn a_key_and_an_input_from_s3() {
    let Some(moto) = Moto::start("a_key_and_an_input_from_s3") else { return };
    let place = Place::new();
    moto.put("/keys", b"");
    for name in ["chain.zkey", "chain.wtns"] {
        moto.put(&format!("/keys/{name}"), &std::fs::read(chain("bn128").join(name)).unwrap());
    }
    let sha256 = digest(&chain("bn128").join("chain.zkey"));
    write(&place, &pinned("s3://keys/chain.zkey", &sha256), "{url: \"s3://keys/chain.wtns\"}");
    run(&place, &moto.url()).expect(0);
    assert_proved(&place);
    write(&place, &pinned("s3://keys/chain.zkey", &"0".repeat(64)), "{url: \"s3://keys/chain.wtns\"}");
    run(&place, &moto.url()).expect(3).says("BadKey").says(&sha256);
    write(&place, "{url: \"s3://keys/gone.zkey\"}", "{url: \"s3://keys/chain.wtns\"}");
    let ran = run(&place, &moto.url()).expect(3).says("s3://keys/gone.zkey");
    assert!(!ran.stdout.contains("verysecret") && !ran.stderr.contains("verysecret"));
}
