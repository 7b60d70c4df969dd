pragma circom 2.2.0;

// Every form of an input signal, a failing assertion, a failing constraint, and log(); for the tests of prover/circom.
// npm circom2 0.2.23 (circom 2.2.3): circom2 features.circom --wasm --sym

bus Point() {
    signal x;
    signal y[2];
}

bus Segment() {
    signal tag;
    Point() from;
    Point() to[2];
}

// Fails its assertion when `in` is zero, and its constraint when `flag` is neither 0 nor 1.
template Checked() {
    signal input in;
    signal input flag;
    signal output out;
    assert(in != 0);
    flag * (flag - 1) === 0;
    out <== in * flag;
}

// The sum of all inputs but `flag`, and their sum weighted with 1, 2, 3, … in the order of their declaration.
template Features() {
    signal input a;
    signal input flag;
    signal input m[2][3];
    signal input nothing[0];
    input Point() p;
    input Point() q[2][2];
    input Segment() s;
    signal output sum;
    signal output weighted;
    signal output product;

    component checked = Checked();
    checked.in <== a;
    checked.flag <== flag;
    product <== checked.out;

    var total = a;
    var weights = a;
    var k = 2;
    for (var i = 0; i < 2; i++) {
        for (var j = 0; j < 3; j++) {
            total += m[i][j];
            weights += k * m[i][j];
            k++;
        }
    }
    total += p.x + p.y[0] + p.y[1];
    weights += k * p.x + (k + 1) * p.y[0] + (k + 2) * p.y[1];
    k += 3;
    for (var i = 0; i < 2; i++) {
        for (var j = 0; j < 2; j++) {
            total += q[i][j].x + q[i][j].y[0] + q[i][j].y[1];
            weights += k * q[i][j].x + (k + 1) * q[i][j].y[0] + (k + 2) * q[i][j].y[1];
            k += 3;
        }
    }
    total += s.tag + s.from.x + s.from.y[0] + s.from.y[1];
    weights += k * s.tag + (k + 1) * s.from.x + (k + 2) * s.from.y[0] + (k + 3) * s.from.y[1];
    k += 4;
    for (var i = 0; i < 2; i++) {
        total += s.to[i].x + s.to[i].y[0] + s.to[i].y[1];
        weights += k * s.to[i].x + (k + 1) * s.to[i].y[0] + (k + 2) * s.to[i].y[1];
        k += 3;
    }
    sum <== total;
    weighted <== weights;
    log("sum is", total, "and weighted", weights);
    log(a);
}

component main { public [a] } = Features();
