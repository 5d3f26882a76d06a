//! What a topology file has no word for: `# sim …` comments say what the simulated fabric is like
//! beyond its cables, and what happens to it when.
//!
//! ```text
//! # sim sm nowhere
//! # sim pkey limited
//! # sim planarized
//! # sim lmc 2
//! # sim load 0.2
//! # sim at 30s down "leaf01"[3]
//! # sim at 1min replace "cn001" 0x2c90300b99990
//! ```
//!
//! A node is named by its description, the first word of it, its GUID, or the id of its line.

use std::time::Duration;

use super::LineProblem;
use crate::fabric::{LinkSpeed, LinkWidth, NodeId, PortKey};
use crate::mad::{Mtu, Vls};
use crate::port::Stamp;
use crate::sim::fabric::Fabric;
use crate::sim::options::{Faults, SimOptions, SmAt};
use crate::sim::script::{Action, Counter, Script};

/// A word of a comment.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    Plain(String),
    /// `"name"` or `"name"[port]`.
    Place(String, Option<u8>),
}

/// Reads the `# sim …` comments of a topology file into `options`: its script is what a fabric
/// that says so has for faults, and otherwise there are none.
pub fn scenario(text: &str, fabric: &Fabric, options: &mut SimOptions) -> Vec<LineProblem> {
    let mut problems = Vec::new();
    let mut script = Script::new();
    for (line, raw) in (1..).zip(text.lines()) {
        let Some(rest) = raw.trim().strip_prefix('#') else {
            continue;
        };
        let Some(rest) = rest.trim_start().strip_prefix("sim ") else {
            continue;
        };
        let read = words(rest).and_then(|words| setting(&words, fabric, options, &mut script));
        if let Err(why) = read {
            problems.push(LineProblem { line, why });
        }
    }
    options.faults = Faults::Script(script);
    problems
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (name, after) = quoted.split_once('"').ok_or("a quote is missing")?;
            let (port, after) = match after.strip_prefix('[').and_then(|t| t.split_once(']')) {
                Some((number, after)) => {
                    let number = number.parse();
                    (Some(number.map_err(|_| "not a port number")?), after)
                }
                None => (None, after),
            };
            words.push(Word::Place(name.to_owned(), port));
            rest = after.trim_start();
        } else {
            let (word, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
            words.push(Word::Plain(word.to_owned()));
            rest = after.trim_start();
        }
    }
    Ok(words)
}

fn pkey(word: &str) -> Option<u16> {
    u16::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// The words of a setting, handed out one by one.
struct Words<'a> {
    fabric: &'a Fabric,
    left: std::slice::Iter<'a, Word>,
}

impl Words<'_> {
    fn plain(&mut self, what: &str) -> Result<&str, String> {
        match self.left.next() {
            Some(Word::Plain(word)) => Ok(word),
            _ => Err(format!("{what} is missing")),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.plain(what)?;
        word.parse().map_err(|_| format!("{what}: not {word:?}"))
    }

    fn hex(&mut self, what: &str) -> Result<u64, String> {
        let word = self.plain(what)?;
        let digits = word.strip_prefix("0x");
        digits
            .and_then(|d| u64::from_str_radix(d, 16).ok())
            .ok_or_else(|| format!("{what}: not {word:?}, but like 0x1234"))
    }

    /// A partition's key, if one is given.
    fn pkey(&mut self) -> Result<Option<u16>, String> {
        match self.left.next() {
            None => Ok(None),
            Some(Word::Plain(word)) => {
                let key = pkey(word);
                let wrong = || format!("which P_Key: not {word:?}, but like 0x8005");
                key.ok_or_else(wrong).map(Some)
            }
            Some(Word::Place(..)) => Err("which P_Key: not in quotes".to_owned()),
        }
    }

    fn time(&mut self, what: &str) -> Result<Duration, String> {
        let word = self.plain(what)?;
        humantime::parse_duration(word).map_err(|e| format!("{what}: {e}"))
    }

    fn place(&mut self) -> Result<(NodeId, Option<u8>), String> {
        let Some(Word::Place(name, port)) = self.left.next() else {
            return Err("a node in quotes is missing".to_owned());
        };
        let index = self
            .fabric
            .find(name)
            .ok_or_else(|| format!("no node {name:?} in this file"))?;
        let id = self.fabric.id(index).unwrap_or_default();
        if let Some(port) = *port
            && self.fabric.port((index, port)).is_none()
        {
            return Err(format!("{name:?} has no port {port}"));
        }
        Ok((id, *port))
    }

    fn node(&mut self) -> Result<NodeId, String> {
        Ok(self.place()?.0)
    }

    fn port(&mut self) -> Result<PortKey, String> {
        match self.place()? {
            (id, Some(port)) => Ok(id.port(port)),
            _ => Err("a port is missing, as in \"leaf01\"[3]".to_owned()),
        }
    }

    fn end(mut self) -> Result<(), String> {
        match self.left.next() {
            None => Ok(()),
            Some(_) => Err("more words than it takes".to_owned()),
        }
    }
}

fn setting(
    words: &[Word],
    fabric: &Fabric,
    options: &mut SimOptions,
    script: &mut Script,
) -> Result<(), String> {
    let mut w = Words {
        fabric,
        left: words.iter(),
    };
    match w.plain("what to simulate")? {
        "sm" => match w.left.next() {
            Some(Word::Plain(word)) if word == "nowhere" => options.sm = SmAt::Nowhere,
            Some(Word::Place(name, _)) => {
                let node = fabric.find(name).and_then(|index| fabric.id(index));
                options.sm = SmAt::Node(node.ok_or_else(|| format!("no node {name:?}"))?);
            }
            _ => return Err("sm is nowhere or at a node in quotes".to_owned()),
        },
        "pkey" => match w.plain("which key")? {
            "limited" => options.limited_pkey = true,
            other => {
                let key = pkey(other).ok_or_else(|| {
                    format!("pkey is limited, or another key of ours like 0x8005, not {other:?}")
                })?;
                options.pkeys.push(key);
            }
        },
        "planarized" => options.planarized = true,
        "lmc" => options.lmc = w.number::<u8>("lmc")?.min(7),
        "load" => options.load = w.number::<f64>("load")?.clamp(0.0, 1.0),
        "loss" => options.loss = w.number::<f64>("loss")?.clamp(0.0, 1.0),
        "at" => {
            let at = Stamp::ZERO + w.time("when")?;
            let action = action(&mut w)?;
            *script = std::mem::take(script).at(at, action);
        }
        other => return Err(format!("{other:?} is nothing to simulate")),
    }
    w.end()
}

fn action(w: &mut Words<'_>) -> Result<Action, String> {
    let what = w.plain("what happens")?.to_owned();
    Ok(match what.as_str() {
        "down" => Action::LinkDown(w.port()?),
        "up" => Action::LinkUp(w.port()?),
        "flap" => Action::Flap {
            port: w.port()?,
            down: w.time("how long down")?,
            up: w.time("how long up")?,
            times: w.number("how often")?,
        },
        "kill" => Action::Kill(w.node()?),
        "revive" => Action::Revive(w.node()?),
        "off" => Action::PowerOff(w.node()?),
        "on" => Action::PowerOn(w.node()?),
        "slow" => Action::Slow {
            node: w.node()?,
            extra: w.time("by how much")?,
        },
        "errors" => Action::Errors {
            port: w.port()?,
            counter: counter(w.plain("which counter")?)?,
            per_second: w.number("how many a second")?,
        },
        "count" => Action::Count {
            port: w.port()?,
            counter: counter(w.plain("which counter")?)?,
            by: w.number("by how much")?,
        },
        "reset" => Action::ResetCounters(w.port()?),
        "width" => Action::Width {
            port: w.port()?,
            width: width(w.plain("which width")?)?,
        },
        "speed" => Action::Speed {
            port: w.port()?,
            speed: speed(w.plain("which speed")?)?,
        },
        "mtu" => Action::Mtu {
            port: w.port()?,
            mtu: mtu(w.number("how many octets")?)?,
        },
        "vls" => Action::Lanes {
            port: w.port()?,
            vls: lanes(w.number("how many lanes")?)?,
        },
        "lid" => Action::SetLid {
            port: w.port()?,
            lid: w.number("which LID")?,
        },
        "describe" => Action::Describe {
            node: w.node()?,
            description: match w.left.next() {
                Some(Word::Place(text, None)) => text.as_bytes().to_vec(),
                _ => return Err("a description in quotes is missing".to_owned()),
            },
        },
        "replace" => Action::Replace {
            node: w.node()?,
            guid: w.hex("which GUID")?,
        },
        "protect" => Action::Protect {
            node: w.node()?,
            m_key: w.hex("which key")?,
            bits: w.number("how strictly")?,
        },
        "redirect" => Action::Redirect {
            node: w.node()?,
            to: Some((w.number("which LID")?, w.pkey()?.unwrap_or(0xFFFF))),
        },
        "traps" => Action::TrapFlood {
            port: w.port()?,
            trap: w.number("which trap")?,
            per_second: w.number("how many a second")?,
            count: w.number("how many")?,
        },
        "sm" => match w.plain("what the SM does")? {
            "failover" => Action::SmFailover,
            "restart" => Action::SmRestart,
            "hang" => Action::SmHang,
            "resume" => Action::SmResume,
            "usurp" => Action::SmUsurp,
            other => return Err(format!("no SM does {other:?}")),
        },
        "device" => match w.plain("what the device does")? {
            "gone" => Action::DeviceGone,
            "back" => Action::DeviceBack,
            other => return Err(format!("the device is gone or back, not {other:?}")),
        },
        other => return Err(format!("{other:?} is nothing that happens")),
    })
}

/// By the names that `perfquery` has.
fn counter(name: &str) -> Result<Counter, String> {
    Ok(match name {
        "SymbolErrorCounter" => Counter::SymbolError,
        "LinkErrorRecoveryCounter" => Counter::LinkErrorRecovery,
        "LinkDownedCounter" => Counter::LinkDowned,
        "PortRcvErrors" => Counter::RcvErrors,
        "PortRcvRemotePhysicalErrors" => Counter::RcvRemotePhysicalErrors,
        "PortRcvSwitchRelayErrors" => Counter::RcvSwitchRelayErrors,
        "PortXmitDiscards" => Counter::XmitDiscards,
        "PortXmitConstraintErrors" => Counter::XmitConstraintErrors,
        "PortRcvConstraintErrors" => Counter::RcvConstraintErrors,
        "LocalLinkIntegrityErrors" => Counter::LocalLinkIntegrityErrors,
        "ExcessiveBufferOverrunErrors" => Counter::ExcessiveBufferOverrunErrors,
        "QP1Dropped" => Counter::Qp1Dropped,
        "VL15Dropped" => Counter::Vl15Dropped,
        "PortXmitWait" => Counter::XmitWait,
        other => return Err(format!("no counter {other:?} to let rise")),
    })
}

fn width(word: &str) -> Result<LinkWidth, String> {
    let known = LinkWidth::KNOWN.iter().find(|w| w.to_string() == word);
    known
        .copied()
        .ok_or_else(|| format!("no link is {word:?} wide"))
}

fn speed(word: &str) -> Result<LinkSpeed, String> {
    super::line::speed(word).ok_or_else(|| format!("no link runs at {word:?}"))
}

fn mtu(octets: u16) -> Result<Mtu, String> {
    (1..=5)
        .map(Mtu::new)
        .find(|m| m.octets() == Some(octets))
        .ok_or_else(|| format!("no link has an MTU of {octets}"))
}

fn lanes(count: u8) -> Result<Vls, String> {
    match count {
        1 => Ok(Vls::Vl0),
        2 => Ok(Vls::Vl0To1),
        4 => Ok(Vls::Vl0To3),
        8 => Ok(Vls::Vl0To7),
        15 => Ok(Vls::Vl0To14),
        other => Err(format!("no port has {other} lanes: 1, 2, 4, 8 or 15")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: &str = "Hca 1 \"H-0000000000000a01\" # \"one mlx5_0\"\n\
                          [1] \"S-0000000000000b01\"[1]\n\
                          Switch 4 \"S-0000000000000b01\" # \"leaf\"\n\
                          [1] \"H-0000000000000a01\"[1]\n";

    fn read(comments: &str) -> (SimOptions, Vec<LineProblem>) {
        let text = format!("{comments}{FABRIC}");
        let (fabric, problems) = super::super::parse(&text);
        assert_eq!(problems, []);
        let mut options = SimOptions::default();
        let problems = scenario(&text, &fabric, &mut options);
        (options, problems)
    }

    #[test]
    fn comments_say_how_a_fabric_is_simulated_and_what_happens() {
        let (options, problems) = read(
            "# sim sm \"one\"\n# sim pkey limited\n# sim pkey 0x8005\n#sim planarized\n# sim lmc 2\n\
             # simple\n# sim at 90s down \"leaf\"[1]\n# sim at 0s mtu \"one mlx5_0\"[1] 2048\n",
        );
        assert_eq!(problems, []);
        let (one, leaf) = (NodeId::new(0xa01), NodeId::new(0xb01));
        assert_eq!(options.sm, SmAt::Node(one));
        assert!(options.limited_pkey && options.planarized);
        assert_eq!(options.pkeys, [0x8005]);
        assert_eq!(options.lmc, 2);
        let expected = Script::new()
            .at(Stamp::from_secs(90), Action::LinkDown(leaf.port(1)))
            .at(
                Stamp::ZERO,
                Action::Mtu {
                    port: one.port(1),
                    mtu: Mtu::B2048,
                },
            );
        assert_eq!(options.faults, Faults::Script(expected));
    }

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        let (options, problems) = read(
            "# sim at 1s down \"nobody\"[1]\n# sim at 1s down \"leaf\"[9]\n\
             # sim at soon kill \"leaf\"\n# sim lmc 1 2\n# sim weather fine\n# sim at 1s kill leaf\n",
        );
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 6, "{told:?}");
        assert_eq!(told[0], "line 1: no node \"nobody\" in this file");
        assert_eq!(told[1], "line 2: \"leaf\" has no port 9");
        assert!(told[2].starts_with("line 3: when: "), "{told:?}");
        assert_eq!(told[3], "line 4: more words than it takes");
        assert_eq!(told[5], "line 6: a node in quotes is missing");
        assert_eq!(options.faults, Faults::Script(Script::new()));
    }
}
