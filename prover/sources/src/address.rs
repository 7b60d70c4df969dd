//! Addresses that a job's URL must not lead to, in every form that reaches them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::policy::Addresses;

impl Addresses {
    /// Why an address must not be connected to; `None` if it may.
    pub(crate) fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        match self {
            Self::Any => None,
            Self::NoInternal { except } if except.contains(&address) => None,
            Self::NoInternal { .. } => internal(address),
        }
    }
}

/// What makes an address internal.
fn internal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => internal_v4(address),
        IpAddr::V6(address) => internal_v6(address),
    }
}

fn internal_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("an unspecified address"),
        [127, ..] => Some("a loopback address"),
        // Azure, Alibaba and Oracle keep their metadata outside of the link-local range.
        [169, 254, 169, 254] | [168, 63, 129, 16] | [100, 100, 100, 200] | [192, 0, 0, 192] => {
            Some("a cloud metadata address")
        }
        [169, 254, ..] => Some("a link-local address"),
        [224..=239, ..] | [255, 255, 255, 255] => Some("a multicast or broadcast address"),
        _ => None,
    }
}

fn internal_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("an unspecified address");
    }
    if address.is_loopback() {
        return Some("a loopback address");
    }
    let s = address.segments();
    match s {
        // AWS fd00:ec2::254 (metadata), ::23 and ::250 (container and pod credentials); Google fd20:ce::254.
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, _] | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254] => {
            return Some("a cloud metadata address");
        }
        [0xfe80..=0xfebf, ..] => return Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => return Some("a site-local address"),
        [0xff00..=0xffff, ..] => return Some("a multicast address"),
        _ => {}
    }
    embedded(s).into_iter().flatten().find_map(internal_v4)
}

/// The IPv4 addresses that an IPv6 address may be translated or tunnelled to.
fn embedded(s: [u16; 8]) -> [Option<Ipv4Addr>; 2] {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    let last = v4(s[6], s[7]);
    match s {
        // Compatible ::a.b.c.d, mapped ::ffff:a.b.c.d, translated ::ffff:0:a.b.c.d (RFC 4291, 2765).
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => [last, None],
        // NAT64's well-known prefix (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => [last, None],
        // NAT64's local prefix (RFC 8215): as a /48 the address lies around bits 64 to 71, as a /96 it comes last; the bits
        // of the other form are zeros then.
        [0x64, 0xff9b, 1, ..] => match (v4(s[3], (s[4] << 8) | (s[5] >> 8)), last) {
            (Some(Ipv4Addr::UNSPECIFIED), last) => [last, None],
            (middle, Some(Ipv4Addr::UNSPECIFIED)) => [middle, None],
            (middle, last) => [middle, last],
        },
        // 6to4 (RFC 3056).
        [0x2002, ..] => [v4(s[1], s[2]), None],
        // Teredo (RFC 4380): server, and client with all bits flipped.
        [0x2001, 0, ..] => [v4(s[2], s[3]), v4(!s[6], !s[7])],
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [last, None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_addresses_in_all_forms() {
        for text in [
            "127.0.0.1",
            "127.255.1.2",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.170.2",
            "169.254.0.1",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1:7f00:0:100::",
            "64:ff9b:1::7f00:1",
            "64:ff9b:1::",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2001:0:7f00:1::",
            "2001:0:808:808:0:0:80ff:fffe",
            "2001:db8::5efe:127.0.0.1",
            "fe80::5efe:10.0.0.1",
        ] {
            assert!(internal(text.parse().unwrap()).is_some(), "{text}");
        }
    }

    #[test]
    fn others_pass() {
        for text in [
            "1.1.1.1",
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "100.64.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "192.0.2.1",
            "223.255.255.255",
            "2606:4700::1111",
            "fd12::1",
            "fc00::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "64:ff9b:1:808:8:800::",
            "64:ff9b:1::808:808",
            "2002:808:808::1",
            "2001:0:808:808::f7f7:f7f7",
            "2001:db8::1",
        ] {
            assert_eq!(internal(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn exceptions_are_exact() {
        let only: IpAddr = "127.0.0.2".parse().unwrap();
        let policy = Addresses::NoInternal { except: vec![only] };
        assert_eq!(policy.refuses(only), None);
        for other in ["127.0.0.1", "::ffff:127.0.0.2", "64:ff9b::7f00:2"] {
            assert!(policy.refuses(other.parse().unwrap()).is_some(), "{other}");
        }
        assert_eq!(Addresses::Any.refuses("::1".parse().unwrap()), None);
    }
}
