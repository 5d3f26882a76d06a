//! Orders that columns share.

use std::cmp::Ordering;

/// Compares texts as people count: `node2` before `node10`. Case decides only between equals.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        match (x.split_first(), y.split_first()) {
            (None, None) => return a.cmp(b),
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some((p, xs)), Some((q, ys))) => {
                if p.is_ascii_digit() && q.is_ascii_digit() {
                    let (m, xrest) = digits(x);
                    let (n, yrest) = digits(y);
                    let order = m.len().cmp(&n.len()).then_with(|| m.cmp(n));
                    if order != Ordering::Equal {
                        return order;
                    }
                    (x, y) = (xrest, yrest);
                    continue;
                }
                let order = p.to_ascii_lowercase().cmp(&q.to_ascii_lowercase());
                if order != Ordering::Equal {
                    return order;
                }
                (x, y) = (xs, ys);
            }
        }
    }
}

/// The leading digits without leading zeros, and the rest.
fn digits(s: &[u8]) -> (&[u8], &[u8]) {
    let end = s
        .iter()
        .position(|c| !c.is_ascii_digit())
        .unwrap_or(s.len());
    let (number, rest) = s.split_at(end);
    let start = number.iter().position(|&c| c != b'0').unwrap_or(end);
    (number.get(start..).unwrap_or_default(), rest)
}

/// Order of two numbers of which either may be missing: missing ones are the least.
pub fn by_f64(a: Option<f64>, b: Option<f64>) -> Ordering {
    let key = |v: Option<f64>| v.unwrap_or(f64::NEG_INFINITY);
    key(a).total_cmp(&key(b))
}
